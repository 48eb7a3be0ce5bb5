//go:build !unix

package files

import "palyra/internal/tool"

// All returns no tools: files are not served on this system yet, and a tool
// that is not there cannot be called.
func All(Config) []tool.Tool { return nil }
