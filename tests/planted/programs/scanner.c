// SPDX-License-Identifier: BSD-2-Clause
// Look at each file of a file system before it may be opened, as a virus scanner does.
//
//     scanner FOLDER EACH_US
//
// EACH_US: how long it looks. Runs until killed.

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fanotify.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	useconds_t each_us = strtoul(argv[2], NULL, 10);
	int group = fanotify_init(FAN_CLASS_CONTENT, O_RDONLY);
	if (group < 0 || fanotify_mark(group, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, FAN_OPEN_PERM,
				       AT_FDCWD, argv[1])) {
		perror("scanner");
		return 1;
	}
	for (;;) {
		struct fanotify_event_metadata event;
		if (read(group, &event, sizeof(event)) < (ssize_t)sizeof(event))
			return 1;
		usleep(each_us);
		struct fanotify_response answer = { event.fd, FAN_ALLOW };
		if (write(group, &answer, sizeof(answer)) < 0)
			perror("scanner: answer");
		close(event.fd);
	}
}
