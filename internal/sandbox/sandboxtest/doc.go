// Package sandboxtest is the suite that defines a native sandbox tier: what every backend must
// deny, bound, end and let work. A backend's tests call Run.
//
// Words: a bench is the setting for one identity, with a workspace, things planted outside of it and a backend; the
// probe is the program that runs inside (directory probe) and tries one thing at a time; a denial is an attempt
// that must fail inside, and its control the same attempt outside, which must not fail, so that no check passes
// because its attempt could never succeed. An attack is a script that tries to change sealed paths, a trap one that
// tries to make a trusted program run it later, a hoard a program that takes as much as it can of something the
// kernel counts. A lack is a denial, bound, kind of work or whole feature that a tier is known not to give: the
// suite then demands that the attempt succeeds, or runs the replacement of the feature, so that the list of lacks
// stays true in both directions. It is the only way in which something is left out, and a lack that is never met is
// a failure.
//
// Root runs everything three times: for a workspace of an ordinary user, for one of root, and, the
// test binary started again, as an ordinary user. An ordinary user runs the last part only, and it
// is the thorough one: attempts one by one, each with its control, and the work that takes seconds.
// Root makes a neighbour for all three, a network with one machine in it at the end of a cable.
//
// PALYRA_SANDBOX_TRIES is how many programs that resist their end are tried; 10 by default. From
// 100 on everything is thorough.
//
// A feature that the host's kernel lacks cannot be shown to be closed: the suite then writes
// UNPROVEN HERE to its log.
package sandboxtest
