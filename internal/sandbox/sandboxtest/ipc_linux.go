package sandboxtest

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// sharedMemory: what lives in the kernel is not a way to the outside.
func sharedMemory(t *testing.T, b *bench) {
	no := 0x50000000 + os.Getpid()
	key, queue := strconv.Itoa(no), "palyra-"+b.mark
	id, err := unix.SysvShmGet(no, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	check(t, err)
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	mem, err := unix.SysvShmAttach(id, 0, 0)
	check(t, err)
	copy(mem, b.secret)
	check(t, unix.SysvShmDetach(mem))
	for i, v := range b.outsideAs(t, self(), []string{"msgnew " + key + " " + b.secret, "semnew " + key, "mqnew " + queue + " " + b.secret}) {
		if v.Errno != "" {
			t.Fatalf("object %d cannot be made outside: %s", i, v.Error)
		}
	}
	t.Cleanup(func() { b.outsideAs(t, self(), []string{"msgdel " + key, "semdel " + key, "mqdel " + queue}) })
	b.deny(t, []denial{
		{"read shared memory of the host", "sysvshm " + key, "", works},
		{"open messages of the host", "msgread " + key, "", works},
		{"read semaphores of the host", "semread " + key, "", works},
		{"open a queue of the host", "mqread " + queue, "", works},
		{"remove messages of the host", "msgdel 0x7fffffff", "", unshown}, // there is none of that key
	})
	if b.lacks(t, ownIPC) { // where they are its own, a run may have some
		b.deny(t, []denial{
			{"make shared memory that outlives the run", "sysvnew", "", works},
			{"open a message queue", "syscall mq_open", "EPERM|ENOSYS", differs},
		})
		return
	}
	nothingStays(t, b)
}

// nothingStays: what a run makes in the kernel is not there for the host nor for the next run.
func nothingStays(t *testing.T, b *bench) {
	key, queue := strconv.Itoa(0x60000000+os.Getpid()), "palyra-own-"+b.mark
	make := []string{"msgnew " + key + " x", "semnew " + key, "mqnew " + queue + " x"}
	find := []string{"msgread " + key, "semread " + key, "mqread " + queue}
	for i, v := range b.inside(t, make) {
		if v.Errno != "" {
			t.Logf("a run may not make it: %s: %s", make[i], v.Errno)
		}
	}
	for i, v := range b.inside(t, find) {
		if v.Errno == "" {
			t.Errorf("%s: the next run finds it", find[i])
		}
	}
	for i, v := range b.outsideAs(t, b.who, find) {
		if v.Errno == "" {
			t.Errorf("%s: the host finds it", find[i])
		}
	}
}

// keyrings are the kernel's own store of secrets.
func keyrings(t *testing.T, b *bench) {
	name := "palyra:" + b.mark
	planted := b.outsideAs(t, b.who, []string{"keynew " + name + " " + b.secret})[0]
	if planted.Errno != "" {
		t.Logf("UNPROVEN HERE: no key can be kept outside: %s", planted.Error)
	} else {
		t.Cleanup(func() { b.outsideAs(t, b.who, []string{"keydel " + name}) })
		b.deny(t, []denial{{"read a key of the owner", "keyread " + name, "", works}})
	}
	b.deny(t, []denial{
		{"keep a key", "keynew " + name + "-own x", "", unshown}, // as above
		{"list keys", "content /proc/keys", "", unshown},         // a kernel may have no such file
		{"list whose keys there are", "content /proc/key-users", "", unshown},
	})
}
