// Stands in for `@earendil-works/pi-agent-core`. Extensions import its types, which do not exist when the code runs.

export const DEFAULT_THINKING_LEVEL = "medium";
