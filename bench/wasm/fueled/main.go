//go:build cgo

// Command fueled runs the function "work" of a module, with fuel and without, in turns, and prints the nanoseconds
// of the fastest of each.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/bytecodealliance/wasmtime-go/v44"
)

func main() {
	binary, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	on, off := machine(binary, true), machine(binary, false)
	var least [2]time.Duration
	for range 5 {
		for i, run := range []func() time.Duration{on, off} {
			if d := run(); least[i] == 0 || d < least[i] {
				least[i] = d
			}
		}
	}
	fmt.Println(least[0].Nanoseconds(), least[1].Nanoseconds())
}

func machine(binary []byte, fuel bool) func() time.Duration {
	c := wasmtime.NewConfig()
	c.SetConsumeFuel(fuel)
	c.SetEpochInterruption(true)
	c.SetCraneliftNanCanonicalization(true)
	e := wasmtime.NewEngineWithConfig(c)
	m, err := wasmtime.NewModule(e, binary)
	if err != nil {
		panic(err)
	}
	return func() time.Duration {
		s := wasmtime.NewStore(e)
		defer s.Close()
		s.SetEpochDeadline(1)
		if fuel {
			if err := s.SetFuel(1 << 62); err != nil {
				panic(err)
			}
		}
		i, err := wasmtime.NewInstance(s, m, nil)
		if err != nil {
			panic(err)
		}
		f := i.GetFunc(s, "work")
		began := time.Now()
		if _, err := f.Call(s); err != nil {
			panic(err)
		}
		return time.Since(began)
	}
}
