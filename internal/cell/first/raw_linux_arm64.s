#include "textflag.h"

// func raw(c *syscallArgs)
TEXT ·raw(SB), NOSPLIT|NOFRAME, $0-8
	MOVD	c+0(FP), R19
	MOVD	0(R19), R8
	MOVD	8(R19), R0
	MOVD	16(R19), R1
	MOVD	24(R19), R2
	MOVD	32(R19), R3
	MOVD	40(R19), R4
	MOVD	48(R19), R5
	SVC
	MOVD	R0, 56(R19)
	RET

// func rawShared(c *syscallArgs)
//
// The child runs on the stack of its parent. The return address is in a register already, R30.
TEXT ·rawShared(SB), NOSPLIT|NOFRAME, $0-8
	MOVD	c+0(FP), R19
	MOVD	0(R19), R8
	MOVD	8(R19), R0
	MOVD	16(R19), R1
	MOVD	24(R19), R2
	MOVD	32(R19), R3
	MOVD	40(R19), R4
	MOVD	48(R19), R5
	SVC
	MOVD	R0, 56(R19)
	RET
