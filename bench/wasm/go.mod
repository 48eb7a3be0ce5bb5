module palyra/bench/wasm

go 1.26.0

replace palyra => ../..

require (
	github.com/bytecodealliance/wasmtime-go/v44 v44.0.0
	github.com/tetratelabs/wazero v1.12.0
	palyra v0.0.0-00010101000000-000000000000
)

require (
	github.com/elastic/go-seccomp-bpf v1.6.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
