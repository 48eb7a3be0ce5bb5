// Package sandboxtest is the suite that defines a native sandbox tier: what every
// backend must deny, bound, end and let work. A backend's tests call Run.
//
// Words: a bench is one identity's place, with a workspace, things planted outside
// of it and a backend; the probe is the program that runs inside (directory probe)
// and tries one thing at a time; a denial is an attempt that must fail inside, and
// its control the same attempt outside, which must not fail, so that no check
// passes because its attempt could never succeed. An attack is a script that wants
// to change what is sealed, a trap one that wants something trusted to run it
// later, a hoard a program that takes all it can get of something the kernel
// counts. A lack is a denial, bound, kind of work or whole feature that a tier is
// known not to give: the suite then demands that the attempt succeeds, or runs
// what takes the feature's place, so that the list of lacks stays true in both
// directions. It is the only way in which something is left out, and a lack that
// is met nowhere is a failure.
//
// Root runs everything three times: for a workspace of an ordinary user, for one
// of root, and, the test binary started again, as an ordinary user. An ordinary
// user runs the last part only, and it is the thorough one: attempts one by one,
// each with its control, and the work that takes seconds. Root makes a neighbour
// for all three, a network with one machine in it at the end of a cable.
//
// PALYRA_SANDBOX_TRIES is how many programs that will not die are tried; 10 when
// it is not set. From 100 on everything is thorough.
//
// What the kernel of the host has no door for is not proven by its being shut: the
// suite then says UNPROVEN HERE in its log.
package sandboxtest
