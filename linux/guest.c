/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A stock program for the guest, without a C library: `guest press MIB` fills memory of its own, and `guest map PAGES COUNTERS` uses
 * /dev/pageset and reads the pages in use from a file. ./init calls both.
 */
typedef unsigned long word;
enum { READ, WRITE, OPEN, MMAP = 9, MUNMAP = 11, MREMAP = 25, FORK = 57, EXIT = 60, WAIT4 = 61, CLOSE = 3 };
enum { PAGE = 4096, READ_WRITE = 3, SHARED = 1, PRIVATE = 2, ANONYMOUS = 32, MAY_MOVE = 1 };

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

static void say(const char *text)
{
	word length = 0;

	while (text[length])
		length++;
	call(WRITE, 1, (word)text, length, 0, 0, 0);
}

static void say_number(const char *name, word number)
{
	char text[24], *at = text + sizeof(text) - 1;

	*at = 0;
	do
		*--at = '0' + number % 10;
	while (number /= 10);
	say(name);
	say(at);
}

static word number_of(const char *text)
{
	word number = 0;

	while (*text >= '0' && *text <= '9')
		number = 10 * number + *text++ - '0';
	return number;
}

/* The sum of the lines `in_use N` of a file. */
static word in_use(const char *path)
{
	static char text[1 << 16];
	static const char name[] = "in_use ";
	word file = call(OPEN, (word)path, 0, 0, 0, 0, 0), length = 0, sum = 0, got, i, j;

	if (failed(file))
		return ~0UL;
	while (!failed(got = call(READ, file, (word)text + length, sizeof(text) - 1 - length, 0, 0, 0)) && got)
		length += got;
	call(CLOSE, file, 0, 0, 0, 0, 0);
	text[length] = 0;
	for (i = 0; i < length; i++) {
		for (j = 0; name[j] && text[i + j] == name[j]; j++)
			;
		sum += name[j] ? 0 : number_of(text + i + j);
	}
	return sum;
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

/* The words that are not as they were written; before that, each is 0. */
static word wrong(volatile word *words, word count)
{
	word bad = 0, i;

	for (i = 0; i < count; i++) {
		bad += words[i] != 0;
		words[i] = i * 0x9e3779b97f4a7c15UL;
	}
	for (i = 0; i < count; i++)
		bad += words[i] != i * 0x9e3779b97f4a7c15UL;
	return bad;
}

static void use(word pages, const char *counters)
{
	word bytes = pages * PAGE, file = call(OPEN, (word) "/dev/pageset", 2, 0, 0, 0, 0), before = in_use(counters);
	word memory = map(bytes, SHARED, file), bad, mapped, allowed, child;

	if (failed(memory)) {
		say("GUEST failed /dev/pageset cannot be mapped\n");
		return;
	}
	/* What is there after the first use must be zeroed for the second. */
	bad = wrong((word *)memory, bytes / sizeof(word));
	mapped = in_use(counters);
	allowed = !failed(call(MUNMAP, memory, PAGE, 0, 0, 0, 0));
	allowed += !failed(call(MREMAP, memory, bytes, 2 * bytes, MAY_MOVE, 0, 0));
	allowed += !failed(map(bytes, PRIVATE, file));
	call(MUNMAP, memory, bytes, 0, 0, 0, 0);
	say_number("GUEST device before=", before);
	say_number(" mapped=", mapped);
	say_number(" after=", in_use(counters));
	/* A process that ends without an unmap. */
	child = call(FORK, 0, 0, 0, 0, 0, 0);
	if (!child) {
		memory = map(bytes, SHARED, file);
		call(EXIT, failed(memory) || wrong((word *)memory, bytes / sizeof(word)), 0, 0, 0, 0, 0);
	}
	mapped = 1;
	call(WAIT4, child, (word)&mapped, 0, 0, 0, 0);
	bad += (unsigned)mapped != 0;
	say_number(" after_exit=", in_use(counters));
	say_number(" pages=", pages);
	say_number(" wrong=", bad);
	say_number(" allowed=", allowed);
	say("\n");
}

__attribute__((used)) static void begin(word *stack)
{
	const char *const *words = (const char *const *)(stack + 1);
	int done = 1;

	if (*stack == 3 && words[1][0] == 'p')
		done = press(number_of(words[2]));
	else if (*stack == 4 && words[1][0] == 'm')
		use(number_of(words[2]), words[3]);
	else
		done = 0;
	call(EXIT, !done, 0, 0, 0, 0, 0);
}

__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall begin\n");
