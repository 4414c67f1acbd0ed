// SPDX-License-Identifier: BSD-2-Clause
/*
 * drive-server: an emulated spinning disk. It keeps a disk's bytes in a media file and answers requests when the model
 * (../model) says that such a drive would.
 *
 *   drive-server --params=FD --media=FD --bytes=N --fuse=FD|--ublk=MARK [--dev=MAJOR:MINOR] [--record=FD] [--time=K]
 *                [--power=FD] [--seed=N] [--spin=NS]
 *
 * --params   text of the drive's parameters, as model/params.h describes it
 * --media    the media file, sparse, which is made as large as the disk; or a block device, which is large enough
 * --bytes    the disk's size; must be that of the parameters
 * --fuse     an opened /dev/fuse, which the caller mounts on a regular file and closes: as long as another process has
 *            it, the end of this server gives no I/O errors
 * --ublk     a new ublk device, for which the kernel keeps this number: by it the device is found after kill -9
 * --record   disk_service.rec, opened for appending
 * --power    a file of 8 bytes that several servers share: they lose their power together
 * --time     the model's time runs K times as fast as the clock (0.1 to 1000)
 * --seed     the phase of the platter
 * --spin     ns before an answer in which a CPU waits for it; 0: none. Default: 50000 where there are two CPUs
 *
 * Commands come on stdin, answers go to stdout: see control.h. Exit status: 0, or 1 with a line of JSON on stdout.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control.h"
#include "model/params.h"
#include "punctual.h"
#include "server.h"

/* Of SCHED_FIFO. The service thread first: what it holds back is late. */
#define SERVICE_PRIORITY  50
#define RECEIVER_PRIORITY 49
#define MEDIA_PRIORITY	  10

#define SPIN_NS		50000
#define WAKE_FIRST_NS	20000 /* until it is calibrated */
/* Memory beyond the write cache: for 128 requests of 512 KiB. */
#define IN_FLIGHT_BYTES (64ULL << 20)
#define EXTENTS_MOST	8192

struct arguments {
	int params;
	int media;
	int fuse;
	int record;
	int power;
	bool ublk;
	uint64_t mark;
	uint64_t bytes;
	uint64_t seed;
	double time;
	int64_t spin_ns; /* -1: as the CPUs allow */
	uint32_t dev;
};

static struct service service;

/* Weak: a build without ublk.c says so when it is asked for. */
#pragma weak ublk_transport

static bool parse_number(const char *text, uint64_t most, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 10);
	return !errno && *text >= '0' && *text <= '9' && !*end && *number <= most;
}

static bool parse_fd(const char *text, int *fd)
{
	uint64_t number;

	if (!parse_number(text, 1 << 20, &number) || fcntl((int)number, F_GETFD) < 0)
		return false;
	*fd = (int)number;
	return true;
}

static bool parse_dev(const char *text, uint32_t *dev)
{
	unsigned int major, minor;
	char rest;

	if (sscanf(text, "%u:%u%c", &major, &minor, &rest) != 2 || major >= 1U << 12 ||
	    minor >= 1U << 20)
		return false;
	*dev = major << 20 | minor;
	return true;
}

static bool parse_option(int option, const char *text, struct arguments *arguments)
{
	uint64_t number = 0;
	char *end;

	switch (option) {
	case 'p':
		return parse_fd(text, &arguments->params);
	case 'm':
		return parse_fd(text, &arguments->media);
	case 'f':
		return parse_fd(text, &arguments->fuse);
	case 'r':
		return parse_fd(text, &arguments->record);
	case 'w':
		return parse_fd(text, &arguments->power);
	case 'u':
		arguments->ublk = true;
		return parse_number(text, UINT64_MAX, &arguments->mark);
	case 'b':
		return parse_number(text, INT64_MAX, &arguments->bytes) && arguments->bytes &&
		       arguments->bytes % PAGE_BYTES == 0;
	case 's':
		return parse_number(text, UINT64_MAX, &arguments->seed);
	case 'd':
		return parse_dev(text, &arguments->dev);
	case 't':
		arguments->time = strtod(text, &end);
		return end != text && !*end && arguments->time >= 0.1 && arguments->time <= 1000;
	case 'n':
		if (!parse_number(text, 1000000, &number))
			return false;
		arguments->spin_ns = (int64_t)number;
		return true;
	default:
		return false;
	}
}

/* 0, or -1 with the fault in error. */
static int parse(int count, char **words, struct arguments *arguments, char error[256])
{
	static const struct option options[] = { { "params", required_argument, NULL, 'p' },
						 { "media", required_argument, NULL, 'm' },
						 { "bytes", required_argument, NULL, 'b' },
						 { "fuse", required_argument, NULL, 'f' },
						 { "ublk", required_argument, NULL, 'u' },
						 { "dev", required_argument, NULL, 'd' },
						 { "record", required_argument, NULL, 'r' },
						 { "power", required_argument, NULL, 'w' },
						 { "time", required_argument, NULL, 't' },
						 { "seed", required_argument, NULL, 's' },
						 { "spin", required_argument, NULL, 'n' },
						 { 0 } };
	int option;

	*arguments = (struct arguments){ .params = -1,
					 .media = -1,
					 .fuse = -1,
					 .record = -1,
					 .power = -1,
					 .time = 1,
					 .spin_ns = -1 };
	opterr = 0;
	while ((option = getopt_long(count, words, "", options, NULL)) != -1) {
		if (!parse_option(option, optarg, arguments)) {
			snprintf(error, 256, "%.100s is no option, or has no valid value",
				 words[optind - 1]);
			return -1;
		}
	}
	if (optind != count || arguments->params < 0 || arguments->media < 0 || !arguments->bytes ||
	    (arguments->fuse < 0) == !arguments->ublk) {
		snprintf(error, 256,
			 "needed: --params=FD --media=FD --bytes=N, and --fuse=FD or --ublk=MARK");
		return -1;
	}
	return 0;
}

static int read_params(int fd, struct drive_params *params, char error[256])
{
	FILE *text = fdopen(fd, "r");
	int failed;

	if (!text) {
		snprintf(error, 256, "--params: %s", strerror(errno));
		return -1;
	}
	failed = drive_params_read(text, params, error);
	fclose(text);
	return failed;
}

/* The media: a regular file or a block device, through the page cache, as large as the disk. */
static int prepare_media(int fd, uint64_t bytes, char error[256])
{
	struct stat status;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fstat(fd, &status)) {
		snprintf(error, 256, "--media: %s", strerror(errno));
		return -1;
	}
	if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) {
		snprintf(error, 256, "--media is neither a regular file nor a block device");
		return -1;
	}
	if (flags & O_DIRECT && fcntl(fd, F_SETFL, flags & ~O_DIRECT)) {
		snprintf(error, 256, "--media: %s", strerror(errno));
		return -1;
	}
	if (S_ISBLK(status.st_mode)) {
		uint64_t device_bytes = 0;

		if (ioctl(fd, BLKGETSIZE64, &device_bytes) || device_bytes < bytes) {
			snprintf(error, 256, "--media is a device smaller than the disk");
			return -1;
		}
	} else if ((uint64_t)status.st_size < bytes && ftruncate(fd, (off_t)bytes)) {
		snprintf(error, 256, "--media: %s", strerror(errno));
		return -1;
	}
	return 0;
}

static int make_locks(char error[256])
{
	pthread_mutexattr_t lends;
	pthread_condattr_t clock;

	if (pthread_mutexattr_init(&lends) ||
	    pthread_mutexattr_setprotocol(&lends, PTHREAD_PRIO_INHERIT) ||
	    pthread_mutex_init(&service.lock, &lends) || pthread_condattr_init(&clock) ||
	    pthread_cond_init(&service.has_room, &clock)) {
		snprintf(error, 256, "no lock that lends priority");
		return -1;
	}
	return 0;
}

/* The disks of a run share one power supply: a page that says when it failed. */
static int share_power(int fd, char error[256])
{
	void *page;

	if (fd < 0)
		return 0;
	page = mmap(NULL, sizeof(*service.power_lost_ns), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    0);
	if (page == MAP_FAILED) {
		snprintf(error, 256, "--power: %s", strerror(errno));
		return -1;
	}
	service.power_lost_ns = page;
	return 0;
}

static int make_service(const struct arguments *arguments, char error[256])
{
	static struct drive_params params;
	uint64_t extents, bytes;

	if (read_params(arguments->params, &params, error))
		return -1;
	if (params.sectors != arguments->bytes / SECTOR_BYTES) {
		snprintf(error, 256, "--bytes is not the size of the drive in --params");
		return -1;
	}
	if (prepare_media(arguments->media, arguments->bytes, error) || make_locks(error) ||
	    share_power(arguments->power, error))
		return -1;
	if (arguments->ublk && !ublk_transport) {
		snprintf(error, 256, "this server was built without ublk");
		return -1;
	}
	service.transport = arguments->ublk
				    ? ublk_transport(arguments->bytes, params.write_cache_bytes > 0,
						     arguments->mark, error)
				    : fuse_transport(arguments->fuse, arguments->bytes, error);
	if (!service.transport)
		return -1;
	extents = params.write_cache_extents < EXTENTS_MOST ? params.write_cache_extents
							    : EXTENTS_MOST;
	/* Each extent may begin and end within a page. */
	bytes = params.write_cache_bytes + IN_FLIGHT_BYTES + 2 * extents * PAGE_BYTES;
	service.drive = drive_new(&params, service.transport->tags, arguments->seed);
	if (!service.drive || pages_make(&service.pages, bytes) ||
	    dirty_make(&service.dirty, &service.pages, service.drive)) {
		snprintf(error, 256, "the drive and %llu MiB of memory for its data: %s",
			 (unsigned long long)bytes >> 20, strerror(errno));
		return -1;
	}
	service.news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (service.news < 0) {
		snprintf(error, 256, "eventfd: %s", strerror(errno));
		return -1;
	}
	service.media = arguments->media;
	service.has_power = true;
	service.wake_ns = WAKE_FIRST_NS;
	service.answer_ns = (double)service.transport->way_out_ns;
	service.clock = (struct model_clock){ .start_ns = now_ns(), .scale = arguments->time };
	return 0;
}

static void *receive(void *unused)
{
	char error[256];

	(void)unused;
	/* The device's end is not the server's: the session asks for the last figures. */
	if (service.transport->run(service.transport, &service, error))
		fprintf(stderr, "drive-server: %s\n", error);
	return NULL;
}

static int start(const struct arguments *arguments, struct punctuality *punctuality,
		 char error[256])
{
	/* A reader of stdout that is gone is an end of stdin, too. */
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
		snprintf(error, 256, "SIGPIPE: %s", strerror(errno));
		return -1;
	}
	punctual_process(punctuality);
	if (make_service(arguments, error))
		return -1;
	service.spin_ns = arguments->spin_ns >= 0 ? arguments->spin_ns
			  : punctuality->cpus > 1 ? SPIN_NS
						  : 0;
	punctual_lock(punctuality);
	if (arguments->dev)
		record_set_dev(arguments->dev);
	if (record_start(arguments->record) || media_start(&service, MEDIA_PRIORITY) ||
	    service_start(&service, SERVICE_PRIORITY) ||
	    punctual_thread(receive, NULL, RECEIVER_PRIORITY)) {
		snprintf(error, 256, "threads and record: %s", strerror(errno));
		return -1;
	}
	return 0;
}

int main(int count, char **words)
{
	struct punctuality punctuality = { 0 };
	struct arguments arguments;
	char error[256] = "";

	if (parse(count, words, &arguments, error) || start(&arguments, &punctuality, error)) {
		control_error(error);
		return 1;
	}
	/* Not by exit(): threads still run, and what they hold ends with the process. */
	count = control_run(&service, &punctuality);
	fflush(stdout);
	_exit(count);
}
