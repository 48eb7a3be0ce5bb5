package execute

import (
	"slices"
	"sync"

	"palyra"
)

// commandState is how far the call has come, as seen from here.
type commandState struct {
	mu     sync.Mutex
	call   palyra.CallID
	asking bool // an answer is awaited
	told   bool // a signal that ends commands was passed on
	ended  bool
	begun  bool   // it is known that the call waits or runs
	early  string // a signal that came before that; "": none did
}

// isEarly keeps a signal that comes before it is known what the call does; false: it is known, or this is the second one
// that ends commands.
func (s *commandState) isEarly(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return false
	}
	if s.early == "" || !slices.Contains(deadly, s.early) {
		s.early = name
		return true
	}
	return !slices.Contains(deadly, name) // a second one is obeyed at once
}

// recall notes that it is known what the call does, and returns the signal that came before, once.
func (s *commandState) recall() (name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun, name, s.early = true, s.early, ""
	return name
}

// accept notes the id of the call.
func (s *commandState) accept(id palyra.CallID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call = id
}

// ask notes that an answer is awaited, and reports whether the call was told to end before: then
// the answer is not awaited.
func (s *commandState) ask() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = true
	return s.told
}

// answered notes that the command may run.
func (s *commandState) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = false
}

// tell notes that a signal is passed on, and returns the call it is for; "" if none runs.
func (s *commandState) tell(deadly bool) palyra.CallID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking || s.ended || s.call == "" {
		return ""
	}
	s.told = s.told || deadly
	return s.call
}

// End notes that nothing can be sent any more.
func (s *commandState) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// id is the call's id; "" before it has one.
func (s *commandState) id() palyra.CallID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.call
}

// running is the call that runs, or is about to; "" while an answer is awaited and after the end.
func (s *commandState) running() palyra.CallID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking || s.ended {
		return ""
	}
	return s.call
}
