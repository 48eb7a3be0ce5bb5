// Package template keeps the rooms that bubblewrap built and from which palyra-cell makes the rooms of calls.
//
// It promises: a template is used only while what it shows is what a new one would show; it ends with its last user, and
// with the daemon. Nothing of a call ever runs in one. It does not decide what a room shows (internal/sandbox/bwrap) nor
// what is done there (internal/sandbox/bubble).
package template
