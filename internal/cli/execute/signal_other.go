//go:build !unix

package execute

import "os"

// signalNames are the signals that are passed on: here there is only Ctrl-C.
var signalNames = map[os.Signal]string{os.Interrupt: "SIGINT"}

// resizeSignal does not exist here.
var resizeSignal os.Signal = noSignal{}

// noSignal is a signal that never comes.
type noSignal struct{}

// Signal implements os.Signal.
func (noSignal) Signal() {}

// String implements os.Signal.
func (noSignal) String() string { return "none" }

// caught are the signals that exec takes.
func caught() []os.Signal { return []os.Signal{os.Interrupt} }

// minePipes has nothing to do: a write into a closed pipe is an error here.
func minePipes() (stop func()) { return func() {} }
