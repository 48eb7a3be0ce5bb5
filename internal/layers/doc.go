// Package layers holds the house rules as tests: who may import whom, where an outside library may be used, which
// calls are forbidden where, what must be documented, and how large things may grow.
//
// The rules are tables; the first row that matches decides. Every rule is also tried on a small planted tree that
// breaks it, so that a rule which has lost its teeth is noticed. The tests read source only, with the standard
// library: files of all platforms and build tags are taken together, nested modules and generated files are left
// out where the rule says so.
//
// The package has no code of its own and nothing imports it.
package layers
