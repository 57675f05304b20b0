/* SPDX-License-Identifier: GPL-2.0 */
/* Markers by hand, marker_ctl(), and files with markers, for the tests here. */
#ifndef SELFTEST_H
#define SELFTEST_H

#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <linux/bootmark.h>

/* Defines marker @var; a field shows that fields are accepted. */
#define SELFTEST_MARKER(var, prov, text)				\
	__attribute__((section(BOOTMARK_SECTION), used))		\
	volatile struct bootmark_desc var = {				\
		.size = BOOTMARK_DESC_SIZE,				\
		.abi_major = BOOTMARK_ABI_MAJOR,			\
		.kind = BOOTMARK_INSTANT,				\
		.level = BOOTMARK_LEVEL_DEFAULT,			\
		.nfields = 1,						\
		.provider = prov,					\
		.name = text,						\
		.fields = { { BOOTMARK_I32, BOOTMARK_HINT_ERRNO, 0, 3 } }, \
		.strings = "ret",					\
	}

asm(".pushsection .note.bootmark, \"a\", @note\n"
	".balign 4\n"
	".globl selftest_note\n"
	"selftest_note:\n"
	".long 9, 24, 1\n"
	".asciz \"bootmark\"\n"
	".balign 4\n"
	".long 0x10000, 256\n"
	".quad __start_linkme_BOOTMARK - .\n"
	".quad __stop_linkme_BOOTMARK - .\n"
	".popsection\n");

/*
 * The first instructions of the program note the state word of the marker
 * selftest_early, before any of the C library's.
 */
extern volatile struct bootmark_desc selftest_early;
extern volatile uint32_t selftest_first_state;
volatile uint32_t selftest_first_state = ~0u;

asm(".globl selftest_start\n"
	"selftest_start:\n"
	"	mov selftest_early + 8(%rip), %eax\n"
	"	mov %eax, selftest_first_state(%rip)\n"
	"	jmp _start\n");

static inline int marker_ctl(int op, struct marker_ctl_args *args, size_t size)
{
	return syscall(__NR_bootmark_marker_ctl, op, args, size) ? -errno : 0;
}

/* Adds a rule; @decides, if any, takes the number of markers. */
static inline int rule_add(const char *text, uint64_t *decides)
{
	struct marker_ctl_args args = {
		.buf = (uintptr_t)text,
		.buf_size = strlen(text),
	};
	int ret = marker_ctl(MARKER_CTL_RULE_ADD, &args, sizeof(args));

	if (decides)
		*decides = args.result;
	return ret;
}

static inline int rule_del(const char *text)
{
	struct marker_ctl_args args = {
		.buf = (uintptr_t)text,
		.buf_size = strlen(text),
	};

	return marker_ctl(MARKER_CTL_RULE_DEL, &args, sizeof(args));
}

static inline struct bootmark_status status(void)
{
	struct bootmark_status status = { };
	struct marker_ctl_args args = {
		.buf = (uintptr_t)&status,
		.buf_size = sizeof(status),
	};

	marker_ctl(MARKER_CTL_STATUS, &args, sizeof(args));
	return status;
}

/* Why the tests cannot run here, NULL when they can. */
static inline const char *missing(void)
{
	/* The arguments are wrong, so a kernel that has the call says EINVAL. */
	if (marker_ctl(0, NULL, 0) != -EINVAL)
		return geteuid() ? "needs root" : "the kernel has no marker_ctl()";
	if (!status().pool_bytes)
		return "no buffers: boot with bootbuf=4M";
	return NULL;
}

extern const char selftest_note[];

/* The octets of this program's own file. */
struct image {
	char	*octets;
	size_t	len;
};

static inline struct image image_load(void)
{
	struct image image = { };
	struct stat st;
	int fd = open("/proc/self/exe", O_RDONLY);

	if (fd < 0 || fstat(fd, &st))
		return image;
	image.octets = malloc(st.st_size);
	if (image.octets && read(fd, image.octets, st.st_size) == st.st_size)
		image.len = st.st_size;
	close(fd);
	return image;
}

/* Where the file has what is at @address of this program; 0 for nowhere. */
static inline size_t image_offset(const struct image *image,
				  const volatile void *address)
{
	const Elf64_Ehdr *ehdr = (void *)image->octets;
	const Elf64_Phdr *ph = (void *)(image->octets + ehdr->e_phoff);
	unsigned int i;

	for (i = 0; i < ehdr->e_phnum; i++, ph++)
		if (ph->p_type == PT_LOAD &&
		    (uintptr_t)address - ph->p_vaddr < ph->p_filesz)
			return (uintptr_t)address - ph->p_vaddr + ph->p_offset;
	return 0;
}

/* Replaces the file, so that it has another inode. */
static inline int file_write(const char *path, const void *octets, size_t len)
{
	int fd, ret;

	unlink(path);
	fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0755);
	if (fd < 0)
		return -errno;
	ret = write(fd, octets, len) == (ssize_t)len ? 0 : -EIO;
	close(fd);
	return ret;
}

/*
 * Maps the writable segment of @path, laid out like @image, as a loader does.
 * Returns where @marker of this program is in it.
 */
static inline volatile struct bootmark_desc *
file_load(const char *path, const struct image *image,
	  volatile struct bootmark_desc *marker)
{
	const Elf64_Ehdr *ehdr = (void *)image->octets;
	const Elf64_Phdr *ph = (void *)(image->octets + ehdr->e_phoff);
	unsigned int i;

	for (i = 0; i < ehdr->e_phnum; i++, ph++) {
		unsigned long skip = ph->p_offset & 4095;
		char *start;
		int fd;

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_W))
			continue;
		fd = open(path, O_RDONLY);
		start = mmap(NULL, ph->p_filesz + skip, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE, fd, ph->p_offset - skip);
		close(fd);
		if (start == MAP_FAILED)
			return NULL;
		return (void *)(start + skip + ((uintptr_t)marker - ph->p_vaddr));
	}
	return NULL;
}

#endif /* SELFTEST_H */
