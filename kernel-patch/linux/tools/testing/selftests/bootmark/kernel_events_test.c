// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's own events while the machine is busy: a reader that sleeps is
 * woken by the very events that it waits for, and what finds no room is counted.
 * As root, on a kernel with bootbuf=4M.
 */
#include "bootbuf.h"

#define BUSY	3

static int rule(int op, const char *text)
{
	struct marker_ctl_args args = {
		.buf = (uintptr_t)text, .buf_size = strlen(text),
	};

	return syscall(__NR_bootmark_marker_ctl, op, &args, sizeof(args)) ? -errno : 0;
}

/* Children that enter the kernel, switch and wake each other up until killed. */
static void start_busy(pid_t *pids)
{
	int i;

	for (i = 0; i < BUSY; i++) {
		pids[i] = fork();
		while (!pids[i]) {
			getppid();
			sched_yield();
			usleep(50);
		}
	}
}

static void stop_busy(const pid_t *pids)
{
	int i;

	for (i = 0; i < BUSY; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
}

/* Records in the packet in buf; -1 when one is torn or out of order. */
static int count_kernel_records(void)
{
	uint32_t pos = BOOTBUF_HEADER_SIZE, end = buf.packet.content_bits / 8, len;
	uint64_t last = buf.packet.ts_begin;
	int count = 0;

	while (pos < end) {
		struct bootbuf_record *rec = (void *)(buf.bytes + pos);

		len = (rec->word >> BOOTBUF_WORD_LEN_SHIFT) & 0xffff;
		if (len < BOOTBUF_RECORD_HEADER || pos + len > end ||
		    !(rec->word & BOOTBUF_WORD_COMMITTED) || rec->timestamp < last ||
		    rec->timestamp > buf.packet.ts_end)
			return -1;
		last = rec->timestamp;
		count++;
		pos += (len + 7) & ~7u;
	}
	return count;
}

FIXTURE(kernel_events)
{
	int fd;
	pid_t pids[BUSY];
};

FIXTURE_SETUP(kernel_events)
{
	self->fd = open_reader(BOOTBUF_OPEN_NONBLOCK);
	ASSERT_GE(self->fd, 0);
	drain(self->fd, 0, true);
	start_busy(self->pids);
	ASSERT_EQ(0, rule(MARKER_CTL_RULE_ADD, "kernel:*"));
	ASSERT_EQ(0, rule(MARKER_CTL_RULE_ADD, "kernel:sys_*"));
}

FIXTURE_TEARDOWN(kernel_events)
{
	rule(MARKER_CTL_RULE_DEL, "kernel:sys_*");
	rule(MARKER_CTL_RULE_DEL, "kernel:*");
	stop_busy(self->pids);
	drain(self->fd, 0, true);
	close(self->fd);
}

TEST_F_TIMEOUT(kernel_events, a_reader_that_sleeps_is_woken, 120)
{
	struct pollfd pfd = { .fd = self->fd, .events = POLLIN };
	int packets = 0, records = 0, sleeps = 0, n;

	while (packets < 300) {
		ssize_t len = next_packet(self->fd);

		if (len == -EAGAIN) {
			ASSERT_EQ(1, poll(&pfd, 1, 10000));
			sleeps++;
			continue;
		}
		ASSERT_GT(len, 0);
		if (buf.packet.stream_id != BOOTBUF_STREAM_CPU)
			continue;
		n = count_kernel_records();
		ASSERT_GT(n, 0);
		records += n;
		packets++;
		ack(self->fd, buf.packet.seal_seq);
	}
	EXPECT_GT(sleeps, 0);
	EXPECT_GT(records, packets);
}

TEST_F_TIMEOUT(kernel_events, what_finds_no_room_is_counted, 120)
{
	uint64_t lost = status().events_lost, discarded = 0;
	int packets = 0, tries = 0;

	/* Nobody reads, so the share of the CPUs fills. */
	while (status().events_lost == lost && tries++ < 1000)
		usleep(100000);
	EXPECT_GT(status().events_lost, lost);

	/* What is sealed next, once there is room again, says so. */
	while (!discarded && packets < 2000) {
		ssize_t len = next_packet(self->fd);

		if (len == -EAGAIN) {
			usleep(1000);
			continue;
		}
		ASSERT_GT(len, 0);
		if (buf.packet.stream_id != BOOTBUF_STREAM_CPU)
			continue;
		ASSERT_GT(count_kernel_records(), 0);
		discarded = buf.packet.discarded;
		packets++;
		ack(self->fd, buf.packet.seal_seq);
	}
	EXPECT_GT(discarded, 0u);
}
