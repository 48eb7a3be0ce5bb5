package sandbox

import (
	"os"
	"sync"

	"palyra"
)

// maxSealedAll is the most bytes that runs together hold as copies of programs: these are in
// memory, outside of every run's own limits, and calls choose the files.
const maxSealedAll = 1 << 30

// leastMemory is the least that a run needs to start: in tier B its cell is in there too. Less is
// refused in planning, before anybody is asked.
const leastMemory = 4 << 20

// workable refuses limits with which nothing could start. A limit of 0 is the tier's own.
func workable(l palyra.Limits) error {
	if l.MemoryBytes <= 0 || l.MemoryBytes >= leastMemory {
		return nil
	}
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "no program starts with a limit of %d bytes of memory", l.MemoryBytes).
		WithRemedy("give limits.memory_bytes at least %d (--memory %dM), or leave it out", leastMemory, leastMemory>>20)
}

// budget counts the bytes of copies.
type budget struct {
	mu   sync.Mutex
	held int64
}

// take reserves the size of the file at path and returns it, or refuses. A file that grows
// afterwards differs from the plan and is refused for that.
func (b *budget) take(path string) (int64, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, executableChanged(path, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+fi.Size() > maxSealedAll {
		return 0, palyra.Errorf(palyra.Exhausted, palyra.ReasonRateLimited, "copies of programs take %d bytes already", b.held).
			WithRemedy("wait for some runs to end, or install the program where the call cannot write")
	}
	b.held += fi.Size()
	return fi.Size(), nil
}

func (b *budget) giveBack(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= n
}
