//go:build !linux

package main

import "io"

// A cell is made of Landlock, seccomp and a subreaper; other systems have backends of their own, without cells.
const onlyLinux = "cells exist on Linux only"

func supervise(errs io.Writer, _ bool, _ ...string) int { return refuse(errs, onlyLinux) }

func launch(errs io.Writer) int { return refuse(errs, onlyLinux) }

func template(errs io.Writer) int { return refuse(errs, onlyLinux) }
