//go:build !linux

package main

import "io"

// A cell is made of Landlock, seccomp and a subreaper; other systems get their
// own backends and no cell.
const onlyLinux = "cells exist on Linux only"

func supervise(errs io.Writer, _ bool, _ ...string) int { return refuse(errs, onlyLinux) }

func launch(errs io.Writer, _ bool) int { return refuse(errs, onlyLinux) }

func reside(errs io.Writer) int { return refuse(errs, onlyLinux) }
