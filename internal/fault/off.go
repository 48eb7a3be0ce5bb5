//go:build !faults

// Package fault names the moments at which a crash must be survivable. In ordinary builds every function is empty.
// Built with the tag "faults" (tests only) a point named in PALYRA_FAULT kills the process with SIGKILL, so that
// the crash is a real one.
package fault

// Point is a moment: "<step>/lost" just before a commit, "<step>/kept" just after it and before anyone is told.
func Point(string) {}

// Enabled reports whether this build can be made to crash.
const Enabled = false
