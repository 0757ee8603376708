/* Runs in the guest: reads and writes blocks of files as the run tells it to, over a TCP connection, one answer for each line.
 *
 *   w FILE BLOCK VALUE    opens the file, writes the block full of VALUE, fsync, closes: "ok" or "err ERRNO"
 *   r FILE BLOCK          opens the file, reads the block, closes: "ok VALUE", "err ERRNO", or "torn" where it holds several values
 *   W, R                  the same through a descriptor that stays open
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BLOCK = 4096, WORDS = BLOCK / sizeof(uint64_t), FILES = 16 };

static uint64_t block[WORDS];
static int held[FILES];

static int opened(const char *folder, int file, int stays) {
  char path[256];
  if (stays && held[file] >= 0) return held[file];
  snprintf(path, sizeof path, "%s/%d", folder, file);
  int fd = open(path, O_RDWR);
  if (stays) held[file] = fd;
  return fd;
}

/* Closes the descriptor where it is not to stay, or is no good any more. */
static int done(int fd, int file, int stays, int error) {
  if (fd >= 0 && (!stays || error)) {
    if (close(fd) != 0 && !error) error = errno;
    if (stays) held[file] = -1;
  }
  return error;
}

static int write_block(const char *folder, int file, off_t offset, uint64_t value, int stays) {
  for (int word = 0; word < WORDS; word++) block[word] = value;
  int fd = opened(folder, file, stays), error = fd < 0 ? errno : 0;
  if (!error && pwrite(fd, block, BLOCK, offset) != BLOCK) error = errno ? errno : EIO;
  if (!error && fsync(fd) != 0) error = errno;
  /* What could not be written must not be read back from memory. */
  if (fd >= 0 && error) posix_fadvise(fd, offset, BLOCK, POSIX_FADV_DONTNEED);
  return done(fd, file, stays, error);
}

static int read_block(const char *folder, int file, off_t offset, int stays) {
  int fd = opened(folder, file, stays), error = fd < 0 ? errno : 0;
  if (!error && pread(fd, block, BLOCK, offset) != BLOCK) error = errno ? errno : EIO;
  return done(fd, file, stays, error);
}

static int is_torn(void) {
  for (int word = 1; word < WORDS; word++)
    if (block[word] != block[0]) return 1;
  return 0;
}

static void obey(FILE *out, const char *folder, const char *line) {
  char what;
  int file;
  long number;
  unsigned long long value = 0;
  if (sscanf(line, "%c %d %ld %llu", &what, &file, &number, &value) < 3 || file < 0 || file >= FILES) exit(2);
  int stays = what == 'W' || what == 'R', writes = what == 'w' || what == 'W';
  errno = 0;
  int error = writes ? write_block(folder, file, number * BLOCK, value, stays) : read_block(folder, file, number * BLOCK, stays);
  if (error)
    fprintf(out, "err %d\n", error);
  else if (writes)
    fprintf(out, "ok\n");
  else if (is_torn())
    fprintf(out, "torn\n");
  else
    fprintf(out, "ok %llu\n", (unsigned long long)block[0]);
  fflush(out);
}

int main(int count, char **words) { /* address, port, folder */
  if (count != 4) return 2;
  for (int file = 0; file < FILES; file++) held[file] = -1;
  struct sockaddr_in run = {.sin_family = AF_INET, .sin_port = htons(atoi(words[2])), .sin_addr.s_addr = inet_addr(words[1])};
  int connection = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(connection, (struct sockaddr *)&run, sizeof run) != 0) return 1;
  FILE *in = fdopen(connection, "r"), *out = fdopen(dup(connection), "w");
  char line[128];
  while (fgets(line, sizeof line, in)) obey(out, words[3], line);
  return 0;
}
