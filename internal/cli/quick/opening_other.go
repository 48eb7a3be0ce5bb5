//go:build !linux

package quick

// BecomeTUI makes this process the terminal UI, or runs it.
func BecomeTUI(path string, args []string) (code int, err error) { return Become(path, args) }
