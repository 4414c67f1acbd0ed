// SPDX-License-Identifier: BSD-2-Clause
/*
 * The first process of the virtual machine: makes the host's read-only root usable, runs one command, and
 * switches the machine off when it ends.
 *
 * The machine is started by qemu.py. virtme-ng's initramfs has loaded the modules for virtio and 9p, mounted the
 * host's root read-only over 9p, and starts us from there, statically linked: a dynamic program costs the better
 * part of a second while nothing is cached. virtme-ng's own init would run udev and systemd-tmpfiles too, ten
 * seconds on emulated CPUs for what one command does not need.
 *
 * The root is an overlay of the host's root (read-only, cached) and a tmpfs: everything can be written, and nothing on
 * the host changes. The run directory is a directory of the host's for this machine alone; the host copies plain
 * files out of it when the machine has ended.
 *
 * Host and guest exchange messages as files in the run directory's raw/.vm/:
 *	boot	from the host: NUL-ended strings, being the working directory, the run directory, the kernel's
 *		configuration (or ""), the environment, "", the command
 *	alive	from us, about once a second: a guest that hangs stops doing so
 *	stop	from the host: end the command, as ^C does
 *	exit	from us: the command's exit status as a number
 * The command's output goes to the virtio port virtme.stdout. An error before the command starts is printed on the
 * console, and the machine is switched off without an exit file.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <net/if.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOST_TAG       "virtme.initmount1"
#define RUN_TAG	       "virtme.initmount0"
#define NINE_P	       "version=9p2000.L,trans=virtio,access=any,msize=512000"
#define HANDED	       "/run/seekmeter.run" /* the run directory, until its own path can be made */
#define TICK_NS	       250000000
#define TICKS_A_SECOND 4

struct boot {
	char *text; /* all of it; the rest points into it */
	char *cwd;
	char *run;
	char *config;
	char **environment;
	char **command;
};

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("seekmeter: init: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
}

static void power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
	pause(); /* a first process that ended would be a panic */
}

__attribute__((noreturn, format(printf, 1, 2))) static void give_up(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("seekmeter: init: ", stderr);
	vfprintf(stderr, format, arguments);
	fprintf(stderr, ": %s\n", strerror(errno));
	va_end(arguments);
	power_off();
	_exit(1);
}

static void make_dir(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		give_up("%s cannot be made", path);
}

/* Makes every directory of an absolute path. */
static void make_path(const char *path)
{
	char part[4096];

	if (strlen(path) >= sizeof(part)) {
		errno = ENAMETOOLONG;
		give_up("%s", path);
	}
	strcpy(part, path);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		make_dir(part);
		*slash = '/';
	}
	make_dir(part);
}

static void need(const char *what, const char *where, const char *type, unsigned long flags,
		 const char *options)
{
	if (mount(what, where, type, flags, options))
		give_up("%s cannot be mounted on %s", type ? type : what, where);
}

/* Mounts what a kernel may lack: a failure is no error here, but for the program that needs it. */
static void want(const char *type, const char *where)
{
	if (mount(type, where, type, 0, NULL) && errno != ENODEV && errno != ENOENT)
		say("%s cannot be mounted on %s: %s", type, where, strerror(errno));
}

/* The file's bytes and a NUL; NULL if it cannot be read. */
static char *read_file(const char *path, size_t *bytes)
{
	size_t room = 4096, have = 0;
	char *text = malloc(room);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = -1;

	while (text && fd >= 0 && (got = read(fd, text + have, room - have - 1)) > 0) {
		have += got;
		if (room - have < 2) {
			char *more = realloc(text, room *= 2);

			if (!more)
				break;
			text = more;
		}
	}
	if (fd >= 0)
		close(fd);
	if (!text || got != 0) {
		free(text);
		return NULL;
	}
	text[have] = '\0';
	if (bytes)
		*bytes = have;
	return text;
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		say("%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* The root: what is written goes to a tmpfs, what is read comes from the host. */
static void make_root(void)
{
	need("proc", "/proc", "proc", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL);
	need("run", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755");
	make_dir("/run/host");
	make_dir("/run/root");
	make_dir("/run/upper");
	make_dir("/run/work");
	/* The host's files do not change under us but in the run directory, which is mounted without a cache. */
	need(HOST_TAG, "/run/host", "9p", MS_RDONLY, NINE_P ",cache=loose");
	need("root", "/run/root", "overlay", 0,
	     "lowerdir=/run/host,upperdir=/run/upper,workdir=/run/work,xino=off");
	if (chdir("/run/root") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		give_up("the root cannot be changed");
}

static void mount_all(void)
{
	make_dir("/proc");
	make_dir("/sys");
	make_dir("/dev");
	make_dir("/run");
	make_dir("/tmp"); /* as on the host: the tree may lie there */
	make_path("/var/tmp");
	need("proc", "/proc", "proc", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL);
	need("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL);
	need("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, "mode=755");
	need("run", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755");
	/* The host's sessions keep their notes there, which are not this guest's. */
	make_path("/var/lib/seekmeter");
	need("seekmeter", "/var/lib/seekmeter", "tmpfs", MS_NOSUID | MS_NODEV, "mode=711");
	make_dir("/dev/pts");
	make_dir("/dev/shm");
	want("devpts", "/dev/pts");
	need("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
	want("cgroup2", "/sys/fs/cgroup");
	want("tracefs", "/sys/kernel/tracing");
	want("debugfs", "/sys/kernel/debug");
	want("securityfs", "/sys/kernel/security");
	want("bpf", "/sys/fs/bpf");
	if ((symlink("/proc/self/fd", "/dev/fd") || symlink("/proc/self/fd/0", "/dev/stdin") ||
	     symlink("/proc/self/fd/1", "/dev/stdout") ||
	     symlink("/proc/self/fd/2", "/dev/stderr")) &&
	    errno != EEXIST)
		say("/dev/fd: %s", strerror(errno));
}

/* The value of a word on the kernel's command line, in what read_file() gave; NULL if it is not there. */
static char *kernel_word(char *line, const char *name)
{
	char *found = strstr(line, name), *end;

	if (!found)
		return NULL;
	found += strlen(name);
	end = found + strcspn(found, *found == '"' ? "" : " \n");
	*end = '\0';
	return found;
}

/* virtme-run says where the kernel's modules are, if not where every kernel looks. */
static void link_modules(void)
{
	char *line = read_file("/proc/cmdline", NULL), *place, link[PATH_MAX];
	struct utsname name;

	if (!line)
		give_up("/proc/cmdline");
	place = kernel_word(line, "virtme_link_mods=");
	if (place && !uname(&name)) {
		make_path("/lib/modules");
		need("modules", "/lib/modules", "tmpfs", 0, "mode=755");
		snprintf(link, sizeof(link), "/lib/modules/%s", name.release);
		if (symlink(place, link))
			say("%s: %s", link, strerror(errno));
	}
	free(line);
}

static void start_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request))
		say("lo: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* Modules that only udev would load, or that would be loaded too late. A kernel may have them built in. */
static void load_modules(void)
{
	char *const command[] = { "modprobe",	   "-q", "-a", "virtio_blk", "loop", "bfq",
				  "kyber-iosched", NULL };
	pid_t child = fork();

	if (child == 0) {
		execvp(command[0], command);
		say("modprobe: %s", strerror(errno));
		_exit(1);
	}
	if (child < 0 || waitpid(child, NULL, 0) < 0)
		say("modprobe: %s", strerror(errno));
}

/* Returns the end of the list of strings that begins at text: after an empty string, or at end. */
static char *count_strings(char *text, const char *end, size_t *count)
{
	*count = 0;
	while (text < end && *text) {
		(*count)++;
		text += strlen(text) + 1;
	}
	return text < end ? text + 1 : text;
}

static char **list_strings(char *text, size_t count)
{
	char **list = calloc(count + 1, sizeof(*list));

	if (!list)
		give_up("no memory");
	for (size_t i = 0; i < count; i++, text += strlen(text) + 1)
		list[i] = text;
	return list;
}

static struct boot read_boot(void)
{
	struct boot boot;
	size_t bytes, variables, words;
	char *end, *at, *command;

	boot.text = read_file(HANDED "/raw/.vm/boot", &bytes);
	if (!boot.text)
		give_up("raw/.vm/boot");
	end = boot.text + bytes;
	boot.cwd = boot.text;
	boot.run = boot.cwd + strlen(boot.cwd) + 1;
	boot.config = boot.run < end ? boot.run + strlen(boot.run) + 1 : end;
	at = boot.config < end ? boot.config + strlen(boot.config) + 1 : end;
	command = count_strings(at, end, &variables);
	count_strings(command, end, &words);
	if (!words) {
		errno = EINVAL;
		give_up("raw/.vm/boot names no command");
	}
	boot.environment = list_strings(at, variables);
	boot.command = list_strings(command, words);
	return boot;
}

/* The configuration where collectors/host/kernel.py looks for it. */
static void link_config(const char *config)
{
	struct utsname name;
	char path[PATH_MAX];

	if (!*config || uname(&name))
		return;
	make_dir("/boot");
	snprintf(path, sizeof(path), "/boot/config-%s", name.release);
	if (symlink(config, path) && errno != EEXIST)
		say("%s: %s", path, strerror(errno));
}

/* The virtio port that is the host's pipe, by its name in sysfs. */
static int open_output(void)
{
	glob_t ports = { 0 };
	int fd = -1;

	if (glob("/sys/class/virtio-ports/*/name", 0, NULL, &ports))
		return -1;
	for (size_t i = 0; fd < 0 && i < ports.gl_pathc; i++) {
		char *name = read_file(ports.gl_pathv[i], NULL), path[PATH_MAX];

		if (name && !strcmp(name, "virtme.stdout\n")) {
			const char *port = ports.gl_pathv[i] + strlen("/sys/class/virtio-ports/");

			snprintf(path, sizeof(path), "/dev/%.*s", (int)strcspn(port, "/"), port);
			fd = open(path, O_WRONLY | O_CLOEXEC);
		}
		free(name);
	}
	globfree(&ports);
	return fd;
}

static pid_t start(const struct boot *boot)
{
	int output = open_output();
	pid_t child = fork();

	if (child < 0)
		give_up("fork");
	if (child > 0) {
		if (output >= 0)
			close(output);
		return child;
	}
	setsid();
	if (output < 0 || dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)
		say("no virtio port virtme.stdout: what is said goes to the console");
	if (chdir(boot->cwd)) {
		say("%s: %s", boot->cwd, strerror(errno));
		_exit(127);
	}
	execve(boot->command[0], boot->command, boot->environment);
	say("%s: %s", boot->command[0], strerror(errno));
	_exit(127);
}

/* Waits for the command and reaps orphans; writes `alive` for the host. Returns the command's exit status. */
static int wait_for(pid_t child)
{
	const struct timespec tick = { .tv_nsec = TICK_NS };
	bool stopping = false;

	for (unsigned long ticks = 0;; ticks++) {
		int status;
		pid_t ended;

		while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
			if (ended == child)
				return WIFEXITED(status) ? WEXITSTATUS(status)
							 : 128 + WTERMSIG(status);
		if (ticks % TICKS_A_SECOND == 0) {
			write_file(HANDED "/raw/.vm/alive", ticks / TICKS_A_SECOND % 2 ? "1" : "0");
			if (!stopping && !access(HANDED "/raw/.vm/stop", F_OK)) {
				stopping = true;
				kill(child, SIGINT);
			}
		}
		nanosleep(&tick, NULL);
	}
}

int main(void)
{
	struct boot boot;
	char text[16];

	make_root();
	mount_all();
	make_dir(HANDED);
	need(RUN_TAG, HANDED, "9p", 0, NINE_P);
	boot = read_boot();
	make_path(boot.run);
	need(HANDED, boot.run, NULL, MS_BIND, NULL);
	link_modules();
	link_config(boot.config);
	if (sethostname("seekmeter", strlen("seekmeter")))
		say("hostname: %s", strerror(errno));
	start_loopback();
	load_modules();
	snprintf(text, sizeof(text), "%d\n", wait_for(start(&boot)));
	write_file(HANDED "/raw/.vm/exit", text);
	power_off();
}
