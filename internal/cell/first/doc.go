// Package first is the first process of a room, from its birth as a copy of its template to its end.
//
// It starts the room's one program, reaps whatever is orphaned there, and ends with everything in its pid namespace. It
// speaks the Line of internal/cell with the daemon. It promises: a program runs with all of its rules or not at all; the
// last word is said when nothing is left; without a daemon nothing lives on. It does not build the room: the template
// does that (cmd/palyra-cell).
//
// It is also the launcher of a cell: a copy of the supervisor that waits for its one run, applies the Spec to itself and
// becomes the program (launch_linux.go). It promises the same of that program.
//
// On amd64 the first process of a room gets no memory of its template but a crib (crib_linux.go); elsewhere it is a copy of it.
//
// Both go on without Go's runtime, which is why they are written the way that raw_linux.go says.
package first
