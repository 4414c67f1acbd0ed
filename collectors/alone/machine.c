// SPDX-License-Identifier: BSD-2-Clause
/* Facts of the kernel and the machine; see machine.h. collectors/host/kernel.py reads the same. */
#include "machine.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>

#include "alone/sysfs.h"
#include "recorder/jsonl.h"

#define MESSAGE_BYTES 8192

/* Settings that decide how fast locks, timers and block I/O are; and those that spinlock_mode() needs. */
static const char *const wanted[] = {
	"CONFIG_HZ",
	"CONFIG_PREEMPT",
	"CONFIG_PREEMPT_NONE",
	"CONFIG_PREEMPT_VOLUNTARY",
	"CONFIG_PREEMPT_DYNAMIC",
	"CONFIG_PREEMPT_RT",
	"CONFIG_PREEMPT_LAZY",
	"CONFIG_SMP",
	"CONFIG_NR_CPUS",
	"CONFIG_NUMA",
	"CONFIG_QUEUED_SPINLOCKS",
	"CONFIG_PARAVIRT_SPINLOCKS",
	"CONFIG_DEBUG_LOCK_ALLOC",
	"CONFIG_LOCK_STAT",
	"CONFIG_PROVE_LOCKING",
	"CONFIG_DEBUG_SPINLOCK",
	"CONFIG_KASAN",
	"CONFIG_BLK_WBT",
	"CONFIG_BLK_WBT_MQ",
	"CONFIG_BLK_CGROUP_IOCOST",
	"CONFIG_CGROUP_WRITEBACK",
	"CONFIG_PARAVIRT",
	"CONFIG_SECURITY_LOCKDOWN_LSM",
};

struct config {
	bool is_known;
	char values[sizeof(wanted) / sizeof(wanted[0])][32]; /* "": not set */
};

static void read_setting(struct config *config, char *line)
{
	char *value = strchr(line, '=');

	if (!value)
		return;
	*value++ = 0;
	value[strcspn(value, "\n")] = 0;
	for (unsigned int i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (!strcmp(line, wanted[i]))
			snprintf(config->values[i], sizeof(config->values[i]), "%s", value);
}

/* zlib reads plain text, too. */
static void read_config(struct config *config, const char *release)
{
	char path[PATH_MOST], line[512];
	gzFile in = gzopen("/proc/config.gz", "re");

	memset(config, 0, sizeof(*config));
	if (!in && path_of(path, "/boot/config-%s", release))
		in = gzopen(path, "re");
	if (!in && path_of(path, "/lib/modules/%s/config", release))
		in = gzopen(path, "re");
	if (!in)
		return;
	config->is_known = true;
	while (gzgets(in, line, sizeof(line)))
		read_setting(config, line);
	gzclose(in);
}

static const char *setting(const struct config *config, const char *name)
{
	for (unsigned int i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (!strcmp(wanted[i], name))
			return config->values[i];
	return "";
}

/* GNU's note of type 3 (elf(5)): three words, then name and content, each padded to four bytes. */
static void write_build_id(FILE *out)
{
	unsigned char notes[4096];
	Elf32_Nhdr note;
	ssize_t bytes = -1;
	size_t at = 0;
	int fd = open("/sys/kernel/notes", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		bytes = read(fd, notes, sizeof(notes));
		close(fd);
	}
	while (bytes > 0 && at + sizeof(note) <= (size_t)bytes) {
		size_t content;

		memcpy(&note, notes + at, sizeof(note));
		content = at + sizeof(note) + (note.n_namesz + 3UL) / 4 * 4;
		if (content + note.n_descsz > (size_t)bytes)
			break;
		if (note.n_type == 3 && note.n_namesz == 4 &&
		    !memcmp(notes + at + sizeof(note), "GNU", 4)) {
			fputc('"', out);
			for (unsigned int i = 0; i < note.n_descsz; i++)
				fprintf(out, "%02x", notes[content + i]);
			fputc('"', out);
			return;
		}
		at = content + (note.n_descsz + 3UL) / 4 * 4;
	}
	fputs("null", out);
}

static void find_lockdown(const struct config *config, char text[64])
{
	char *begin, *end;

	if (!text_of(text, 64, "/sys/kernel/security/lockdown")) {
		bool is_none = config->is_known &&
			       !setting(config, "CONFIG_SECURITY_LOCKDOWN_LSM")[0];

		strcpy(text, is_none ? "none" : "unknown");
		return;
	}
	begin = strchr(text, '[');
	end = begin ? strchr(begin, ']') : NULL;
	if (!end) {
		strcpy(text, "unknown");
		return;
	}
	*end = 0;
	memmove(text, begin + 1, strlen(begin + 1) + 1);
}

/* Does the text come in the kernel's messages, as far as they are kept? */
static bool was_said(const char *text)
{
	char message[MESSAGE_BYTES + 1];
	bool found = false;
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	while (fd >= 0 && !found) {
		ssize_t bytes = read(fd, message, MESSAGE_BYTES);

		if (bytes < 0 && (errno == EPIPE || errno == EINTR))
			continue; /* overwritten meanwhile: go on with the rest */
		if (bytes <= 0)
			break;
		message[bytes] = 0;
		found = strstr(message, text) != NULL;
	}
	if (fd >= 0)
		close(fd);
	return found;
}

/* How spinlocks wait: collectors/host/kernel.py explains the modes. */
static const char *spinlock_mode(const struct config *config, bool is_guest)
{
	if (config->is_known && strcmp(setting(config, "CONFIG_QUEUED_SPINLOCKS"), "y") != 0)
		return "unknown";
	if (!is_guest || (config->is_known && !setting(config, "CONFIG_PARAVIRT")[0]))
		return "native";
	if (was_said("PV spinlocks enabled"))
		return "pv";
	if (was_said("PV spinlocks disabled, no host support"))
		return "virt";
	if (was_said("PV spinlocks disabled"))
		return "native";
	return was_said("Linux version") ? "virt" : "unknown";
}

/* The first CPU's model, and whether its flags have a hypervisor's. */
static bool read_cpu(char *model, size_t room)
{
	FILE *in = fopen("/proc/cpuinfo", "re");
	bool is_guest = false;
	char line[8192];

	model[0] = 0;
	while (in && fgets(line, sizeof(line), in)) {
		char *colon = strchr(line, ':');

		if (!model[0] && colon && !strncmp(line, "model name", 10)) {
			colon[1 + strcspn(colon + 1, "\n")] = 0;
			snprintf(model, room, "%s", colon[1] ? colon + 2 : "");
		}
		if (!strncmp(line, "flags", 5) && strstr(line, " hypervisor"))
			is_guest = true;
	}
	if (in)
		fclose(in);
	return is_guest;
}

/* What the machine has still to write back: Dirty and Writeback of /proc/meminfo. */
static unsigned long long dirty_bytes(void)
{
	FILE *in = fopen("/proc/meminfo", "re");
	unsigned long long kib, sum = 0;
	char line[128];

	while (in && fgets(line, sizeof(line), in))
		if (sscanf(line, "Dirty: %llu kB", &kib) == 1 ||
		    sscanf(line, "Writeback: %llu kB", &kib) == 1)
			sum += kib * 1024;
	if (in)
		fclose(in);
	return sum;
}

void machine_write(FILE *out)
{
	char model[TEXT_MOST], lockdown[64];
	struct utsname name = { 0 };
	const char *separator = "";
	struct config config;
	bool is_guest = read_cpu(model, sizeof(model));

	if (uname(&name))
		return;
	read_config(&config, name.release);
	find_lockdown(&config, lockdown);
	fputs("\"kernel\":{\"release\":", out);
	json_string(out, name.release);
	fputs(",\"version\":", out);
	json_string(out, name.version);
	fputs(",\"arch\":", out);
	json_string(out, name.machine);
	fputs(",\"build_id\":", out);
	write_build_id(out);
	fputs(",\"lockdown\":", out);
	json_string(out, lockdown);
	fprintf(out, ",\"spinlock_mode\":\"%s\",\"config\":{", spinlock_mode(&config, is_guest));
	for (unsigned int i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (!config.values[i][0])
			continue;
		fprintf(out, "%s\"%s\":", separator, wanted[i]);
		json_string(out, config.values[i]);
		separator = ",";
	}
	fprintf(out, "}},\"machine\":{\"cpus\":%ld,\"cpu_model\":", sysconf(_SC_NPROCESSORS_CONF));
	json_string(out, model);
	fprintf(out,
		",\"memory_bytes\":%llu,\"virtualization\":\"%s\",\"dirty_bytes_at_start\":%llu}",
		(unsigned long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE),
		is_guest ? "guest" : "none", dirty_bytes());
}
