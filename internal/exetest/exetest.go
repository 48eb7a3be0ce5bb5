// Package exetest makes programs that tests run at once. A process that is forked while a file is open for writing
// holds it open until it execs, and whoever runs the file meanwhile is told "text file busy": tests that run side
// by side fork all the time.
package exetest

import (
	"os"
	"syscall"
)

// Write makes a program of data at path. Nothing is forked meanwhile.
func Write(path string, data []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, data, 0o755)
}

// Copy makes a program at path of another one.
func Copy(path, of string) error {
	data, err := os.ReadFile(of)
	if err != nil {
		return err
	}
	return Write(path, data)
}
