# From the boot protocol to long mode, for the first CPU and for the others.

# The ELF note by which the boot loader finds the 32-bit entry: sizes of name and value, type XEN_ELFNOTE_PHYS32_ENTRY.
.pushsection .note.pvh, "a", @note
.balign 4
.long 4, 4, 18
.asciz "Xen"
.long pvh_start
.popsection

.text
# The first CPU. The boot loader passes the address of the start info in ebx; paging is off.
.code32
.globl pvh_start
pvh_start:
    cld
    movl $boot_stack_end, %esp
    movl %ebx, %edi
    movl $kernel_main, %esi

# Calls the function in esi with the argument edi, in long mode, on the stack in esp.
enter_long_mode:
    movl $boot_pml4, %eax
    movl %eax, %cr3
    # CR4.PAE
    movl %cr4, %eax
    orl $0x20, %eax
    movl %eax, %cr4
    # EFER.LME
    movl $0xC0000080, %ecx
    rdmsr
    orl $0x100, %eax
    wrmsr
    # CR0: paging, write protection, protected mode
    movl %cr0, %eax
    orl $0x80010001, %eax
    movl %eax, %cr0
    lgdt gdt_pointer
    ljmp $0x08, $long_mode
.code64
long_mode:
    movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl %esp, %esp
    movl %esi, %esi
    call *%rsi
    ud2

# Another CPU, after the trampoline. Its starter has set the stack and the CPU's number.
.code32
started_cpu:
    movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    cld
    movl started_cpu_stack, %esp
    movl started_cpu_number, %edi
    movl $started_cpu_main, %esi
    jmp enter_long_mode

# Copied to a page below 1 MiB, at 0x8000. A CPU starts there in real mode.
.code16
.globl trampoline_start, trampoline_end
trampoline_start:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    lgdtl 0x8000 + trampoline_gdt_pointer - trampoline_start
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $0x18, $started_cpu
.balign 4
trampoline_gdt_pointer:
    .word 31
    .long gdt
trampoline_end:
.code64

.data
.balign 16
# Null, 64-bit code, data, 32-bit code.
gdt:
    .quad 0, 0x00AF9A000000FFFF, 0x00CF92000000FFFF, 0x00CF9A000000FFFF
gdt_pointer:
    .word 31
    .long gdt
.balign 4
.globl started_cpu_stack, started_cpu_number
started_cpu_stack:
    .long 0
started_cpu_number:
    .long 0

# The first 512 GiB, mapped at their physical addresses in pages of 1 GiB: present, writable, and for the latter, large.
.balign 4096
.globl boot_pml4
boot_pml4:
    .quad boot_pdpt + 3
    .skip 4088
boot_pdpt:
    .set address, 0
    .rept 512
    .quad address + 0x83
    .set address, address + 0x40000000
    .endr

.bss
.balign 16
.globl boot_stack_start
boot_stack_start:
    .skip 65536
boot_stack_end:
