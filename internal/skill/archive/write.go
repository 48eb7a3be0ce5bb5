package archive

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
)

// The numbers of the zip format that entries have, all the same for each.
const (
	localHeader   = 0x04034b50
	centralHeader = 0x02014b50
	endHeader     = 0x06054b50
	needs         = 20             // version 2.0
	madeBy        = 3<<8 | needs   // Unix
	regular       = 0o100644 << 16 // an ordinary file
	dosDate       = 0x21           // 1 January 1980, the first day that zip knows
)

// write is the one form of a package with these files.
func write(files map[string][]byte) []byte {
	var out, central bytes.Buffer
	put := func(b *bytes.Buffer, values ...any) {
		for _, v := range values {
			_ = binary.Write(b, binary.LittleEndian, v) // a buffer takes everything
		}
	}
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		data, at := files[name], uint32(out.Len())
		about := []any{
			uint16(needs), uint16(0), uint16(0), uint16(0), uint16(dosDate), crc32.ChecksumIEEE(data), uint32(len(data)), uint32(len(data)),
			uint16(len(name)), uint16(0),
		}
		put(&out, uint32(localHeader))
		put(&out, about...)
		out.WriteString(name)
		out.Write(data)
		put(&central, uint32(centralHeader), uint16(madeBy))
		put(&central, about...)
		put(&central, uint16(0), uint16(0), uint16(0), uint32(regular), at)
		central.WriteString(name)
	}
	at, size := uint32(out.Len()), uint32(central.Len())
	out.Write(central.Bytes())
	put(&out, uint32(endHeader), uint16(0), uint16(0), uint16(len(names)), uint16(len(names)), size, at, uint16(0))
	return out.Bytes()
}
