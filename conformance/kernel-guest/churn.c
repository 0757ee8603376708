/* Runs in the guest: works on a tree through two mounts of one share at once, as two clients do, and knows what each file must hold.
 *
 *   churn MOUNT MOUNT SEED SECONDS    prints what it did; 1 where a file was not as it must be, or an operation failed
 *
 * Each of the two has names of its own, which only it changes, in folders that both use; both read the other's. What the two do is one
 * sequence of a single process, so that what has to be seen is certain. The kernel must ask the server anew for each name: mount with
 * actimeo=0.
 *
 * Linux 6.1 does two things that it should not do. Both happen against any server. The program allows exactly these, and counts them:
 *
 * - A name stays occupied. The client keeps the handle of a closed file for closetimeo (1 s), for a next open. It gives that handle up when
 *   its lease loses H. But if a program used the handle again, and closed it while the lease was RH, the client acknowledges RH to R and
 *   keeps the handle open until the second is over, contrary to MS-SMB2 3.2.5.19.2. For so long the other client cannot replace the file
 *   (its kernel then removes the target, and tries again) or make a new one under its name: DELETE_PENDING, which programs get as ENOENT.
 *   And for so long a name that is gone leads to the file all the same where the client opens it: it has the handle and R, and asks nobody.
 * - A file that the other client changed and renamed is old at the first look. The client finds its cached inode under the new name, and
 *   marks its pages as stale, but drops them only when it comes across that name for the second time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The kernel keeps a handle for a second after the file was closed, and may be late on a busy machine. */
enum { FOLDERS = 4, NAMES = 96, MOST = 192 * 1024, KEPT_SECONDS = 3 };

/* That a name is believed that is gone takes two looks in a second and then a third: the client alone does it
 * less often than this. */
enum { BELIEVED_MOST = 2, BELIEVED_ONE_IN = 10000 };

/* `looked` is when the other client has last looked at the file of this name, and `moved` whether it was renamed since; `found` is when it has
 * last found a file under the name, whichever that was. */
struct model { int there; size_t size; unsigned char *bytes; double looked; int moved; double found; };

static struct model models[2][NAMES];
static const char *mounts[2];
static unsigned char seen[MOST + 1];
static unsigned long long state, operations, occupied, believed, stale, late;

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

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

/* Whether the other client may still keep a handle of this file, after an operation that failed; waits a little where it may. */
static int is_kept(const struct model *model) {
  if (errno != ENOENT || now() - model->looked > KEPT_SECONDS) return 0;
  occupied++;
  usleep(50000);
  return 1;
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
  int fd;
  do fd = open(where, O_RDWR | O_CREAT | (anew ? O_TRUNC : 0), 0666); while (fd < 0 && !model->there && is_kept(model));
  if (fd < 0) wrong("open", where);
  if (anew) { model->there = 1; model->size = 0; memset(model->bytes, 0, MOST); }
  for (unsigned times = 1 + chance(3); times; times--) {
    off_t offset = model->size ? chance(model->size) : 0;
    size_t space = MOST - offset, length = chance(chance(4) ? 4096 : space);
    store(fd, where, model, offset, length < space ? length : space);
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

/* Who caches only reads is told of a change and not waited for, so that the other's files may be half a second behind. */
static void look(int mount, int owner, int name) {
  const char *where = path(mount, owner, name);
  struct model *model = &models[owner][name];
  const char *what = fault(where, model);
  if (mount != owner) {
    if (what && model->moved && ++stale) what = fault(where, model);
    if (what && !model->there && now() - model->found < KEPT_SECONDS) {
      if (++believed > BELIEVED_MOST + operations / BELIEVED_ONE_IN) wrong("names that are gone are believed too often,", where);
      for (; what && now() - model->found < KEPT_SECONDS; what = fault(where, model)) usleep(50000);
    }
    for (int tries = 0; what && tries < 5; tries++, late++) {
      usleep(100000);
      what = fault(where, model);
    }
    model->looked = now();
    if (model->there) model->found = model->looked;
    model->moved = 0;
  }
  if (what) wrong(what, where);
}

static void move(int owner, int from, int to) {
  if (!models[owner][from].there || from == to) return;
  int failed;
  do failed = rename(path(owner, owner, from), path(owner, owner, to)); while (failed && is_kept(&models[owner][to]));
  if (failed) wrong("rename", path(owner, owner, from));
  struct model gone = models[owner][to];
  models[owner][to] = models[owner][from];
  models[owner][from] = gone;
  models[owner][to].moved = 1;
  models[owner][from].there = 0;
  models[owner][from].looked = -KEPT_SECONDS;
  models[owner][from].found = models[owner][to].found;
  models[owner][to].found = gone.found;
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
      if (!(models[owner][name] = (struct model){.bytes = calloc(1, MOST), .looked = -KEPT_SECONDS, .found = -KEPT_SECONDS}).bytes) return 2;
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
  printf("churn: %llu operations; %llu times a name was occupied, %llu times one that was gone believed, %llu times the first look was stale, "
         "%llu times a look a tenth of a second early\n",
         operations, occupied, believed, stale, late);
  return 0;
}
