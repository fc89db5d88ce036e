package view

import (
	"os"

	"golang.org/x/sys/windows"
)

// Prepare makes a terminal understand what a Terminal writes, and answers whether it does.
func Prepare(file *os.File) bool {
	var mode uint32
	console := windows.Handle(file.Fd())
	if windows.GetConsoleMode(console, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
