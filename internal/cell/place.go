package cell

// SearchPath is where programs are looked for, and the PATH of a run whose plan names no other.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"

// The private places of a run in a room. All are in memory and bounded.
const (
	RoomHome = "/home/agent"
	RoomTmp  = "/tmp"
	RoomRun  = "/run"
	RoomShm  = "/dev/shm"
	// RoomPalyra is the PALYRA_HOME of a run that is an agent itself: it contains nothing but the socket.
	RoomPalyra = RoomRun + "/palyra"
)
