package main

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fillPlaces writes a[0] MiB into each of the directories behind.
func fillPlaces(a []string) int {
	deaf()
	for _, dir := range a[1:] {
		f, err := os.Create(filepath.Join(dir, "filled"))
		if err != nil {
			return fail("%v", err)
		}
		if err := writeMebi(int(f.Fd()), number(a[0])); err != nil {
			return fail("refused: %v", err)
		}
	}
	ready()
	pause()
	return 0
}

// rewrite writes a[0] MiB into the file a[1], four at a time and each over the last.
func rewrite(a []string) int {
	return again(a, func(f *os.File) error { return writeMebi(int(f.Fd()), 4) })
}

// rewriteMapped does so through a mapping.
func rewriteMapped(a []string) int {
	return again(a, func(f *os.File) error {
		if err := f.Truncate(4 * mebi); err != nil {
			return err
		}
		m, err := unix.Mmap(int(f.Fd()), 0, 4*mebi, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		for i := 0; i < len(m); i += 4096 {
			m[i] = 1
		}
		return unix.Munmap(m)
	})
}

func again(a []string, do func(*os.File) error) int {
	deaf()
	f, err := os.Create(a[1])
	if err != nil {
		return fail("%v", err)
	}
	for range number(a[0]) / 4 {
		if _, err = f.Seek(0, 0); err == nil {
			err = f.Truncate(0)
		}
		if err == nil {
			err = do(f)
		}
		if err != nil {
			return fail("%v", err)
		}
	}
	ready()
	pause()
	return 0
}

func writeMebi(fd, n int) error {
	block := make([]byte, mebi)
	for i := range block {
		block[i] = byte(i)
	}
	for range n {
		if _, err := unix.Write(fd, block); err != nil {
			return err
		}
	}
	return nil
}
