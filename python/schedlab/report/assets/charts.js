// The charts: Vega-Lite specifications that report/charts.py made with Altair. Their colours are
// custom properties of the page, so a theme change or a print needs no second rendering.

async function drawCharts() {
  const options = { actions: false, renderer: "svg", ast: false };
  for (const place of document.querySelectorAll("[data-chart]")) {
    const spec = JSON.parse(document.getElementById(`chart-${place.dataset.chart}`).textContent);
    try {
      await window.vegaEmbed(place, spec, options);
      place.dataset.state = "drawn";
    } catch (error) {
      place.dataset.state = "failed";
      place.textContent = `This chart could not be drawn: ${error.message}`;
    }
  }
}
