//go:build !linux

package probe

import (
	"io"

	"palyra/internal/cell"
)

// Run does nothing on systems without cells.
func Run([]string, io.Writer) int { return cell.Refused }
