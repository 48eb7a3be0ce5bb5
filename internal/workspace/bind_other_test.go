//go:build unix && !linux

package workspace

import "errors"

func bind(string, string) error { return errors.ErrUnsupported }
func unbind(string) error       { return nil }
