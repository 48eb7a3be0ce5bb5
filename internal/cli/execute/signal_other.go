//go:build !unix

package execute

import "os"

// signalNames are the signals that are passed on: only Ctrl-C on this system.
var signalNames = map[os.Signal]string{os.Interrupt: "SIGINT"}

// resizeSignal does not exist on this system.
var resizeSignal os.Signal = noSignal{}

// noSignal is a signal that never comes.
type noSignal struct{}

// Signal implements os.Signal.
func (noSignal) Signal() {}

// String implements os.Signal.
func (noSignal) String() string { return "none" }

// caught are the signals that exec takes.
func caught() []os.Signal { return []os.Signal{os.Interrupt} }

// minePipes does nothing: on this system a write into a closed pipe is an error already.
func minePipes() (stop func()) { return func() {} }

// openInherited opens a descriptor that another program left open.
func openInherited(fd int, name string) *os.File { return os.NewFile(uintptr(fd), name) }
