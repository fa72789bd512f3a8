// The libraries of curves.
export { default as uPlot } from "uplot";
