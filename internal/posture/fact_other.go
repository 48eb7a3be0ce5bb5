//go:build !linux

package posture

import "runtime"

func hostFacts() map[string]string { return map[string]string{"kernel": runtime.GOOS} }
