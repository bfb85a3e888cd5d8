// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
/*
 * /dev/pageset: a program that opens it for reading and writing and maps it (MAP_SHARED) gets zeroed pages of pageset, each at the first
 * access. All pages of a mapping go back when the mapping ends, not before: a part of it can neither be unmapped nor moved, and a child
 * process does not inherit it. An access that finds no page gets SIGBUS. Pages are mapped by frame number, so no call of the kernel takes
 * references to them.
 */
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/kref.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/xarray.h>

#include "pageset.h"

/* The pages of a mapping, by number from its begin. */
struct mapping {
	struct kref users;
	struct xarray pages;
};

static void free_mapping(struct kref *users)
{
	struct mapping *mapping = container_of(users, struct mapping, users);
	unsigned long number;
	void *entry;

	xa_for_each(&mapping->pages, number, entry)
		if (pageset_free(pfn_to_page(xa_to_value(entry)), 0))
			pr_err("pageset_dev: cannot free page %lu\n", xa_to_value(entry));
	xa_destroy(&mapping->pages);
	kfree(mapping);
}

static void device_open(struct vm_area_struct *vma)
{
	struct mapping *mapping = vma->vm_private_data;

	kref_get(&mapping->users);
}

/* The kernel has removed the mapping from the page tables before. */
static void device_close(struct vm_area_struct *vma)
{
	struct mapping *mapping = vma->vm_private_data;

	kref_put(&mapping->users, free_mapping);
}

static int device_may_split(struct vm_area_struct *vma, unsigned long address)
{
	return -EINVAL;
}

static int device_mremap(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static vm_fault_t device_fault(struct vm_fault *vmf)
{
	struct mapping *mapping = vmf->vma->vm_private_data;
	unsigned long number = vmf->pgoff - vmf->vma->vm_pgoff;
	void *entry = xa_load(&mapping->pages, number);

	if (!entry) {
		struct page *page = pageset_alloc(GFP_KERNEL, 0);

		if (!page)
			return VM_FAULT_SIGBUS;
		clear_highpage(page);
		/* Another thread may have been here first. */
		entry = xa_cmpxchg(&mapping->pages, number, NULL, xa_mk_value(page_to_pfn(page)), GFP_KERNEL);
		if (entry)
			pageset_free(page, 0);
		if (xa_is_err(entry))
			return VM_FAULT_OOM;
		entry = entry ?: xa_mk_value(page_to_pfn(page));
	}
	return vmf_insert_pfn(vmf->vma, vmf->address, xa_to_value(entry));
}

static const struct vm_operations_struct device_operations = {
	.open = device_open,
	.close = device_close,
	.may_split = device_may_split,
	.mremap = device_mremap,
	.fault = device_fault,
};

static int device_mmap(struct file *file, struct vm_area_struct *vma)
{
	const unsigned long flags = VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY;
	struct mapping *mapping;

	/* A private mapping would copy pages that have no references. */
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	mapping = kmalloc(sizeof(*mapping), GFP_KERNEL);
	if (!mapping)
		return -ENOMEM;
	kref_init(&mapping->users);
	xa_init(&mapping->pages);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, flags);
#else
	vma->vm_flags |= flags;
#endif
	vma->vm_private_data = mapping;
	vma->vm_ops = &device_operations;
	return 0;
}

static const struct file_operations device_file = {
	.owner = THIS_MODULE,
	.mmap = device_mmap,
	.llseek = noop_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "pageset",
	.fops = &device_file,
	.mode = 0600,
};

module_misc_device(device);
MODULE_DESCRIPTION("Maps pages of pageset to programs");
MODULE_LICENSE("Dual MIT/GPL");
