//go:build !windows

package view

import "os"

// Prepare makes a terminal understand what a Terminal writes, and answers whether it does.
func Prepare(*os.File) bool { return true }
