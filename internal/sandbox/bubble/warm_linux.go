package bubble

import (
	"os"
	"strconv"
	"strings"
)

// ready does ahead of time what a warm room can do: its record.
func (k *keeper) ready() error {
	k.bytes = k.weigh()
	if k.snapshot == nil {
		return nil
	}
	return k.write(true)
}

// weigh is roughly the memory of a waiting room: of its first process, what it does not share with others.
func (k *keeper) weigh() int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(k.Body.Pid()) + "/statm")
	f := strings.Fields(string(b))
	if err != nil || len(f) < 3 {
		return cellGuess
	}
	resident, err1 := strconv.ParseInt(f[1], 10, 64)
	shared, err2 := strconv.ParseInt(f[2], 10, 64)
	if err1 != nil || err2 != nil {
		return cellGuess
	}
	return max(0, resident-shared)*int64(os.Getpagesize()) + roomKernel
}

// roomKernel is roughly what the kernel keeps for the namespaces and mounts of a room.
const roomKernel = 512 << 10
