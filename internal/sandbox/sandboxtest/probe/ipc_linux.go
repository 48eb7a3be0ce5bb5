package main

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ipcOps are objects that live in the kernel. Those that make one are for the outside, where the suite plants it.
func ipcOps() map[string]operation {
	return map[string]operation{
		"sysvshm": {1, sysvShm},
		"sysvnew": {0, sysvNew},
		"mqnew":   {2, queueNew},
		"mqread":  {1, queueRead},
		"mqdel":   {1, func(a []string) (string, error) { return raw(unix.SYS_MQ_UNLINK, place(a[0])) }},
		"msgnew":  {2, messageNew},
		"msgread": {1, messageRead},
		"msgdel":  {1, messageDel},
		"semnew":  {1, semaphoreNew},
		"semread": {1, semaphoreRead},
		"semdel":  {1, semaphoreDel},
		"keynew":  {2, keyNew},
		"keyread": {1, keyRead},
		"keydel":  {1, keyDel},
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// raw makes a system call.
func raw(no uintptr, args ...uintptr) (string, error) {
	var a [6]uintptr
	copy(a[:], args)
	n, _, e := unix.Syscall6(no, a[0], a[1], a[2], a[3], a[4], a[5])
	if e != 0 {
		return "", e
	}
	return itoa(int(n)), nil
}

// page is memory of ours whose address is known: the kernel is told addresses,
// and has the bytes carried there by system calls only.
func page() uintptr {
	at, _, e := unix.Syscall6(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE, ^uintptr(0), 0)
	if e != 0 {
		unix.Exit(fail("%v", e))
	}
	return at
}

// carry moves bytes to a page by way of a pipe.
func carry(b []byte, at uintptr) {
	var p [2]int
	err := unix.Pipe2(p[:], unix.O_CLOEXEC)
	if err == nil {
		_, err = unix.Write(p[1], b)
		_, _, _ = unix.Syscall(unix.SYS_READ, uintptr(p[0]), at, uintptr(len(b)))
		_, _ = unix.Close(p[0]), unix.Close(p[1])
	}
	if err != nil {
		unix.Exit(fail("%v", err))
	}
}

// place puts a text with a zero behind it into memory.
func place(text string) uintptr {
	at := page()
	carry(append([]byte(text), 0), at)
	return at
}

func queue(name string, flags uintptr) (int, error) {
	fd, err := raw(unix.SYS_MQ_OPEN, place(name), flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o666, 0)
	if err != nil {
		return -1, err
	}
	return number(fd), nil
}

func queueNew(a []string) (string, error) {
	fd, err := queue(a[0], unix.O_CREAT|unix.O_RDWR)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Fchmod(fd, 0o666); err != nil {
		return "", err
	}
	return raw(unix.SYS_MQ_TIMEDSEND, uintptr(fd), place(a[1]), uintptr(len(a[1])), 0, 0)
}

// queueRead opens a queue, which is to have been let in; what is in it stays.
func queueRead(a []string) (string, error) {
	fd, err := queue(a[0], unix.O_RDONLY)
	if err == nil {
		_ = unix.Close(fd)
	}
	return "", err
}

func messageNew(a []string) (string, error) {
	id, err := raw(unix.SYS_MSGGET, uintptr(number(a[0])), unix.IPC_CREAT|0o666)
	if err != nil {
		return "", err
	}
	at := page()
	carry(append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, a[1]...), at)
	return raw(unix.SYS_MSGSND, uintptr(number(id)), at, uintptr(len(a[1])), unix.IPC_NOWAIT)
}

// messageRead copies nothing out: MSG_COPY needs an option of the kernel, and
// taking the message would spoil the control. To have found the queue is enough.
func messageRead(a []string) (string, error) { return raw(unix.SYS_MSGGET, uintptr(number(a[0])), 0) }

func messageDel(a []string) (string, error) {
	id, err := raw(unix.SYS_MSGGET, uintptr(number(a[0])), 0)
	if err != nil {
		return "", err
	}
	return raw(unix.SYS_MSGCTL, uintptr(number(id)), unix.IPC_RMID, 0)
}

func semaphoreNew(a []string) (string, error) {
	return raw(unix.SYS_SEMGET, uintptr(number(a[0])), 1, unix.IPC_CREAT|0o666)
}

func semaphoreRead(a []string) (string, error) {
	const getVal = 12
	id, err := raw(unix.SYS_SEMGET, uintptr(number(a[0])), 1, 0)
	if err != nil {
		return "", err
	}
	return raw(unix.SYS_SEMCTL, uintptr(number(id)), 0, getVal, 0)
}

func semaphoreDel(a []string) (string, error) {
	id, err := raw(unix.SYS_SEMGET, uintptr(number(a[0])), 1, 0)
	if err != nil {
		return "", err
	}
	return raw(unix.SYS_SEMCTL, uintptr(number(id)), 0, unix.IPC_RMID, 0)
}

func keyNew(a []string) (string, error) {
	id, err := unix.AddKey("user", a[0], []byte(a[1]), unix.KEY_SPEC_USER_KEYRING)
	return itoa(id), err
}

func keyRead(a []string) (string, error) {
	id, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", a[0], 0)
	if err != nil {
		return "", err
	}
	b := make([]byte, 256)
	n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, b, 0)
	return string(b[:min(max(n, 0), len(b))]), err
}

func keyDel(a []string) (string, error) {
	id, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", a[0], 0)
	if err != nil {
		return "", err
	}
	_, err = unix.KeyctlInt(unix.KEYCTL_INVALIDATE, id, 0, 0, 0)
	return "", err
}

// sysvShm reads the segment of a key.
func sysvShm(a []string) (string, error) {
	id, err := unix.SysvShmGet(number(a[0]), 0, 0)
	if err != nil {
		return "", err
	}
	b, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.SysvShmDetach(b) }()
	text, _, _ := strings.Cut(string(b), "\x00")
	return text, nil
}

func sysvNew([]string) (string, error) {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, 0o600)
	if err != nil {
		return "", err
	}
	_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	return "", err
}
