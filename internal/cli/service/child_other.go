//go:build !unix

package service

import (
	"os"
	"os/exec"
)

// detached does nothing: on this system a program outlives the one that started it.
func detached(*exec.Cmd) {}

// attached does nothing on this system.
func attached(*exec.Cmd) {}

// pleaseStop kills the program: this system has no gentler way.
func pleaseStop(p *os.Process) error { return p.Kill() }

// alive cannot be found out on this system; the closed door has to do.
func alive(int) bool { return false }
