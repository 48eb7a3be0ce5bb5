// Package probe tries what must not work in a sandbox. It is the program that posture has run in a
// tier, as palyra-cell's "probe": one act a run, one line of what came of it. It judges nothing.
package probe
