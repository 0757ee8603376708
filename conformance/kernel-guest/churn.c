/* Runs in the guest: works on a tree through two mounts of one share at once, as two clients do, and knows what each file must hold.
 *
 *   churn MOUNT MOUNT SEED SECONDS    prints what it did; 1 where a file was not as it must be, or an operation failed
 *
 * Each of the two has names of its own, which only it changes, in folders that both use; both read the other's. What the two do is one
 * sequence of a single process, so that what has to be seen is certain. The kernel must ask the server anew for each name: mount with
 * actimeo=0.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FOLDERS = 4, NAMES = 96, MOST = 192 * 1024 };

struct model { int there; size_t size; unsigned char *bytes; };

static struct model models[2][NAMES];
static const char *mounts[2];
static unsigned char seen[MOST + 1];
static unsigned long long state, operations, late;

static unsigned chance(unsigned below) { /* splitmix64 */
  unsigned long long z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return (unsigned)((z ^ (z >> 31)) % below);
}

static const char *path(int mount, int owner, int name) {
  static char texts[4][256];
  static int next;
  char *text = texts[next++ % 4];
  snprintf(text, sizeof texts[0], "%s/tree/folder-%d/client-%d-name-%d", mounts[mount], name % FOLDERS, owner, name);
  return text;
}

static void wrong(const char *what, const char *where) {
  printf("churn: %s %s: %s, after %llu operations\n", what, where, errno ? strerror(errno) : "not what was written", operations);
  exit(1);
}

static void fill(unsigned char *bytes, size_t length) {
  unsigned value = chance(1u << 30);
  for (size_t place = 0; place < length; place++) bytes[place] = (unsigned char)(value + place * 7 + place / 251);
}

static void store(int fd, const char *where, struct model *model, off_t offset, size_t length) {
  fill(model->bytes + offset, length);
  for (size_t done = 0; done < length;) {
    ssize_t written = pwrite(fd, model->bytes + offset + done, length - done, offset + done);
    if (written <= 0) wrong("write", where);
    done += written;
  }
  if (offset + length > model->size) model->size = offset + length;
}

static void change(int owner, int name) { /* all anew, or some of it */
  struct model *model = &models[owner][name];
  const char *where = path(owner, owner, name);
  int anew = !model->there || chance(3) == 0;
  int fd = open(where, O_RDWR | O_CREAT | (anew ? O_TRUNC : 0), 0666);
  if (fd < 0) wrong("open", where);
  if (anew) { model->there = 1; model->size = 0; memset(model->bytes, 0, MOST); }
  for (unsigned times = 1 + chance(3); times; times--) {
    off_t offset = model->size ? chance(model->size) : 0;
    store(fd, where, model, offset, chance(chance(4) ? 4096 : MOST - offset));
  }
  if (chance(4) == 0) {
    size_t size = chance(MOST);
    if (ftruncate(fd, size) != 0) wrong("truncate", where);
    if (size < model->size) memset(model->bytes + size, 0, model->size - size);
    model->size = size;
  }
  if (chance(4) == 0 && fsync(fd) != 0) wrong("fsync", where);
  if (close(fd) != 0) wrong("close", where);
}

/* What is wrong with a file as this mount has it, or nothing. */
static const char *fault(const char *where, const struct model *model) {
  errno = 0;
  int fd = open(where, O_RDONLY);
  if (!model->there) {
    int error = errno;
    if (fd >= 0) close(fd);
    errno = fd >= 0 || error == ENOENT ? 0 : error;
    return fd >= 0 || errno ? "a name that is gone:" : NULL;
  }
  if (fd < 0) return "open to read";
  size_t size = 0;
  ssize_t got = 0;
  while (size <= MOST && (got = pread(fd, seen + size, sizeof seen - size, size)) > 0) size += got;
  int error = got < 0 ? errno : 0;
  close(fd);
  errno = error;
  if (got < 0) return "read";
  if (size != model->size) return "size of";
  return memcmp(seen, model->bytes, size) == 0 ? NULL : "contents of";
}

/* Who caches only reads is told of a change and not waited for, so that the other's names may be a moment behind. */
static void look(int mount, int owner, int name) {
  const char *where = path(mount, owner, name), *what = NULL;
  for (int tries = 0; tries < (mount == owner ? 1 : 20); tries++) {
    if (!(what = fault(where, &models[owner][name]))) return;
    late++;
    usleep(100000);
  }
  wrong(what, where);
}

static void move(int owner, int from, int to) {
  if (!models[owner][from].there || from == to) return;
  if (rename(path(owner, owner, from), path(owner, owner, to)) != 0) wrong("rename", path(owner, owner, from));
  struct model gone = models[owner][to];
  models[owner][to] = models[owner][from];
  models[owner][from] = gone;
  models[owner][from].there = 0;
}

static void drop(int owner, int name) {
  if (!models[owner][name].there) return;
  if (unlink(path(owner, owner, name)) != 0) wrong("unlink", path(owner, owner, name));
  models[owner][name].there = 0;
}

int main(int count, char **words) {
  if (count != 5) return 2;
  mounts[0] = words[1], mounts[1] = words[2];
  state = strtoull(words[3], NULL, 10);
  time_t until = time(NULL) + atoi(words[4]);
  char folder[256];
  snprintf(folder, sizeof folder, "%s/tree", mounts[0]);
  if (mkdir(folder, 0777) != 0) wrong("mkdir", folder);
  for (int each = 0; each < FOLDERS; each++) {
    snprintf(folder, sizeof folder, "%s/tree/folder-%d", mounts[each % 2], each);
    if (mkdir(folder, 0777) != 0) wrong("mkdir", folder);
  }
  for (int owner = 0; owner < 2; owner++)
    for (int name = 0; name < NAMES; name++)
      if (!(models[owner][name].bytes = calloc(1, MOST + 1))) return 2;
  for (; time(NULL) < until; operations++) {
    int owner = chance(2), name = chance(NAMES);
    switch (chance(8)) {
      case 0: case 1: case 2: change(owner, name); break;
      case 3: case 4: look(owner, owner, name); break;
      case 5: look(!owner, owner, name); break;
      case 6: move(owner, name, chance(NAMES)); break;
      case 7: drop(owner, name); break;
    }
  }
  for (int mount = 0; mount < 2; mount++)
    for (int owner = 0; owner < 2; owner++)
      for (int name = 0; name < NAMES; name++) look(mount, owner, name);
  printf("churn: %llu operations, %llu looks were a tenth of a second too early\n", operations, late);
  return 0;
}
