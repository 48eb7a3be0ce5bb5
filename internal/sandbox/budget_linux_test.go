package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
)

// Limits with which nothing could start are refused before anybody is asked.
func TestTooLittleMemoryIsNotPromised(t *testing.T) {
	b := newBox(t)
	for bytes, fine := range map[int64]bool{0: true, 1: false, leastMemory - 1: false, leastMemory: true} {
		_, err := b.r.Promise(t.Context(), palyra.TierB, palyra.Limits{MemoryBytes: bytes})
		e := palyra.AsError(err)
		if (err == nil) != fine || err != nil && (e.Reason != palyra.ReasonMalformedInput || !strings.Contains(e.Remedy, "--memory 4M")) {
			t.Errorf("%d: %v", bytes, err)
		}
	}
}

// Copies of programs are bounded together, and what ended gives its share back.
func TestCopiesAreBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(maxSealedAll / 4); err != nil { // sparse
		t.Fatal(err)
	}
	_ = f.Close()
	var b budget
	for range 4 {
		if n, err := b.take(file); err != nil || n != maxSealedAll/4 {
			t.Fatal(n, err)
		}
	}
	if _, err := b.take(file); palyra.AsError(err).Reason != palyra.ReasonRateLimited {
		t.Errorf("over the bound: %v", err)
	}
	b.giveBack(maxSealedAll / 4)
	if _, err := b.take(file); err != nil {
		t.Errorf("after one ended: %v", err)
	}
	if _, err := b.take(file + "-gone"); palyra.AsError(err).Reason != palyra.ReasonPlanChanged {
		t.Errorf("a program that is gone: %v", err)
	}
}

// Two daemons never share a directory of rooms: each would take the other's for
// left behind.
func TestADirectoryOfRoomsHasOneDaemon(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cells")
	first, err := openPrivateDirs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openPrivateDirs(dir); palyra.AsError(err).Reason != palyra.ReasonSecondDaemon {
		t.Errorf("the second: %v", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	again, err := openPrivateDirs(dir)
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	_ = again.close()
}
