//go:build !unix

package service

import (
	"os"
	"os/exec"
)

// detached has nothing to do here: a program outlives the one that started it.
func detached(*exec.Cmd) {}

// attached has nothing to do here.
func attached(*exec.Cmd) {}

// pleaseStop can only end the program here.
func pleaseStop(p *os.Process) error { return p.Kill() }

// alive cannot be told here; the closed door has to do.
func alive(int) bool { return false }
