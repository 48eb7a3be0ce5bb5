// Package sandboxtest is the suite that defines a native sandbox tier: what every
// backend must deny, bound, end and let work. A backend's tests call Run.
//
// Words: a bench is one identity's place, with a workspace, things planted outside
// of it and a backend; the probe is the program that runs inside (directory probe)
// and tries one thing at a time; a denial is an attempt that must fail inside, and
// its control the same attempt outside, which must not fail, so that no check
// passes because its attempt could never succeed. A lack is a denial that a tier
// is known not to give: the suite then demands that the attempt succeeds, so that
// the list of lacks stays true in both directions.
//
// Root runs everything three times: for a workspace of an ordinary user, for one
// of root, and, the test binary started again, as an ordinary user. An ordinary
// user runs the last part only.
//
// PALYRA_SANDBOX_TRIES is how many programs that will not die are tried; 10 when
// it is not set.
//
// What the kernel of the host has no door for is not proven by its being shut: the
// suite then says UNPROVEN HERE in its log.
package sandboxtest
