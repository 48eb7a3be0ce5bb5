//go:build !linux && !darwin

package durable

import "errors"

// Free cannot be told here.
func Free(string) (int64, error) { return 0, errors.ErrUnsupported }
