package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func fileOps() map[string]operation {
	return map[string]operation{
		"read":      {1, func(a []string) (string, error) { return readSome(os.Open(a[0])) }},
		"list":      {1, list},
		"openw":     {1, openw},
		"create":    {1, create},
		"remove":    {1, func(a []string) (string, error) { return "", unix.Unlink(a[0]) }},
		"mkdir":     {1, mkdir},
		"truncate":  {1, func(a []string) (string, error) { return "", unix.Truncate(a[0], 0) }},
		"exec":      {1, execFile},
		"device":    {1, device},
		"mknod":     {1, mknod},
		"fifo":      {1, fifo},
		"lease":     {1, lease},
		"chdir":     {1, chdir},
		"stat":      {1, stat},
		"chmod":     {1, chmod},
		"chmodsuid": {1, chmodSetuid},
		"utimes":    {1, utimes},
		"xattr":     {1, func(a []string) (string, error) { return "", unix.Setxattr(a[0], "user.palyra", []byte("x"), 0) }},
		"watch":     {1, watch},
		"many":      {2, many},
	}
}

func list(a []string) (string, error) {
	d, err := os.Open(a[0])
	if err != nil {
		return "", err
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	return strings.Join(names, "\n"), err
}

// openw opens for writing and changes nothing.
func openw(a []string) (string, error) {
	fd, err := unix.Open(a[0], unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return "", err
}

func create(a []string) (string, error) {
	fd, err := unix.Open(a[0], unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return "", err
	}
	_ = unix.Close(fd)
	return "", unix.Unlink(a[0])
}

func mkdir(a []string) (string, error) {
	if err := unix.Mkdir(a[0], 0o700); err != nil {
		return "", err
	}
	return "", unix.Rmdir(a[0])
}

// execFile runs a copy of this program that lies at a path.
func execFile(a []string) (string, error) {
	p, err := os.StartProcess(a[0], []string{a[0], "exit", "0"}, &os.ProcAttr{})
	if err != nil {
		return "", err
	}
	_, err = p.Wait()
	return "", err
}

func device(a []string) (string, error) {
	fd, err := unix.Open(a[0], unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return "", err
}

// mknod makes a device node of /dev/null: of any disk it would be the same call.
func mknod(a []string) (string, error) {
	if err := unix.Mknod(a[0], unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
		return "", err
	}
	return "", unix.Unlink(a[0])
}

func fifo(a []string) (string, error) {
	if err := unix.Mkfifo(a[0], 0o600); err != nil {
		return "", err
	}
	return "", unix.Unlink(a[0])
}

// chdir goes somewhere and reads what is there.
func chdir(a []string) (string, error) {
	back, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if err := unix.Chdir(a[0]); err != nil {
		return "", err
	}
	defer func() { _ = unix.Chdir(back) }()
	return list([]string{"."})
}

func stat(a []string) (string, error) {
	var st unix.Stat_t
	err := unix.Stat(a[0], &st)
	return strconv.FormatInt(st.Size, 10), err
}

// chmod gives a file the mode it has.
func chmod(a []string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(a[0], &st); err != nil {
		return "", err
	}
	return "", unix.Chmod(a[0], st.Mode&0o7777)
}

func utimes(a []string) (string, error) {
	now := unix.NsecToTimespec(time.Now().UnixNano())
	return "", unix.UtimesNanoAt(unix.AT_FDCWD, a[0], []unix.Timespec{now, now}, 0)
}

func watch(a []string) (string, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	_, err = unix.InotifyAddWatch(fd, a[0], unix.IN_ALL_EVENTS)
	return "", err
}

// many makes, reads and removes so many files below a directory.
func many(a []string) (string, error) {
	for i := range number(a[1]) {
		name := a[0] + "/f" + strconv.Itoa(i)
		if err := os.WriteFile(name, []byte(name), 0o600); err != nil {
			return "", err
		}
	}
	names, err := os.ReadDir(a[0])
	for _, e := range names {
		if strings.HasPrefix(e.Name(), "f") {
			if err := os.Remove(a[0] + "/" + e.Name()); err != nil {
				return "", err
			}
		}
	}
	return strconv.Itoa(len(names)), err
}

func chmodSetuid(a []string) (string, error) {
	if err := unix.Chmod(a[0], 0o4755); err != nil {
		return "", err
	}
	return "", unix.Chmod(a[0], 0o755)
}

// lease takes one on a file: whoever opens it then waits.
func lease(a []string) (string, error) {
	f, err := os.Open(a[0])
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	return "", err
}
