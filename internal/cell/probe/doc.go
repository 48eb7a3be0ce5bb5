// Package probe tries what must not work in a sandbox. It is the program that posture runs in a tier, as
// palyra-cell's "probe": each run tries one act and prints one line with its result. It judges nothing.
package probe
