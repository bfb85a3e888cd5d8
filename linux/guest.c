/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A stock program for the guest, without a C library: `guest press MIB` fills memory of its own. ./init calls it.
 */
typedef unsigned long word;
enum { MMAP = 9, EXIT = 60 };
enum { PAGE = 4096, READ_WRITE = 3, PRIVATE = 2, ANONYMOUS = 32 };

static word call(word number, word a, word b, word c, word d, word e, word f)
{
	register word r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;

	__asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return number;
}

static int failed(word result)
{
	return result > -4096UL;
}

static word map(word bytes, word flags, word file)
{
	return call(MMAP, 0, bytes, READ_WRITE, flags, file, 0);
}

static word number_of(const char *text)
{
	word number = 0;

	while (*text >= '0' && *text <= '9')
		number = 10 * number + *text++ - '0';
	return number;
}

/* Fills memory. Returns whether it had as much. */
static int press(word mib)
{
	word bytes = mib << 20, memory = map(bytes, PRIVATE | ANONYMOUS, -1UL), i;

	if (failed(memory))
		return 0;
	for (i = 0; i < bytes; i += PAGE)
		*(volatile word *)(memory + i) = i;
	for (i = 0; i < bytes; i += PAGE)
		if (*(volatile word *)(memory + i) != i)
			return 0;
	return 1;
}

__attribute__((used)) static void begin(word *stack)
{
	const char *const *words = (const char *const *)(stack + 1);
	int done = 1;

	if (*stack == 3 && words[1][0] == 'p')
		done = press(number_of(words[2]));
	else
		done = 0;
	call(EXIT, !done, 0, 0, 0, 0, 0);
}

__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall begin\n");
