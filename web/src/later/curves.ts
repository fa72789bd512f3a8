// What curves need.
export { default as uPlot } from "uplot";
